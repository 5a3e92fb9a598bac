# frozen_string_literal: true

# slow: it loads RBS and all signatures

require "test_helper"
require "neverblock"
require "neverblock/postgres/pipeline"
require "neverblock/shards"

# sig/ describes the code: each public method of each public constant has a signature with the same keywords, each
# signature has a method, and superclasses agree. `rake lint:sig` checks that the signatures are valid RBS.
class SignaturesTest < Minitest::Test
  CONSTANTS = %w[
    NeverBlock NeverBlock::Task NeverBlock::Scope NeverBlock::FiberPool NeverBlock::Semaphore NeverBlock::Flight
    NeverBlock::Select NeverBlock::Promise NeverBlock::CancelScope
    NeverBlock::Engine NeverBlock::Scheduler NeverBlock::ConfigurationError NeverBlock::TimeoutError
    NeverBlock::OverloadError NeverBlock::ClosedError NeverBlock::DeadlockError NeverBlock::ResourceLimitError
    NeverBlock::UnsupportedError
    NeverBlock::Cancelled NeverBlock::Failure NeverBlock::Shards NeverBlock::Shards::Results NeverBlock::Shards::Incomplete
    NeverBlock::ConnectionPool NeverBlock::ConnectionPool::Error
    NeverBlock::ConnectionPool::TimeoutError NeverBlock::ConnectionPool::CircuitOpenError NeverBlock::ConnectionPool::Wrapper
    NeverBlock::Pages::Page NeverBlock::Pages::KeysetPage NeverBlock::Pages::Routes NeverBlock::Pages::NotFound
    NeverBlock::Pages::ClassMethods NeverBlock::Pages::Helpers NeverBlock::ActionCaching NeverBlock::ActionCaching::PersonalError
  ].freeze

  # C methods that only the library's own files use; Ruby methods of that kind have "@api private".
  INTERNAL = {"NeverBlock::Task" => %i[finished hold release fiber= scope inner_scope inner_scope= origin= shield on_end]}.freeze

  # Methods that Ruby calls, or may call, on a scheduler.
  HOOKS = %i[block unblock kernel_sleep yield io_wait io_select io_close io_read io_write io_pread io_pwrite
    process_wait address_resolve timeout_after fiber fiber_interrupt blocking_operation_wait run close].freeze

  def setup
    require "rbs"
    @builder = builder
  rescue LoadError
    skip "the rbs gem is left out on preview Rubies"
  end

  CONSTANTS.each do |name|
    define_method(:"test_#{name}") do
      constant = Object.const_get(name)
      type = RBS::TypeName.parse("::#{name}")
      compare(name, constant.singleton_methods(false), @builder.build_singleton(type)) { |method| constant.method(method) }
      compare(name, constant.public_instance_methods(false), @builder.build_instance(type)) { |method| constant.instance_method(method) }
      next unless constant.is_a?(Class)
      signed_parents = @builder.ancestor_builder.instance_ancestors(type).ancestors.map { |one| one.name.relative!.to_s }
      assert_equal constant.superclass.name, signed_parents.drop(1).find { |parent| Object.const_get(parent).is_a?(Class) }
    end
  end

  def test_the_scheduler_has_every_hook
    signed = @builder.build_instance(RBS::TypeName.parse("::NeverBlock::Scheduler")).methods.keys
    assert_empty HOOKS - signed, "without a signature"
    assert_empty HOOKS - NeverBlock::Scheduler.public_instance_methods, "without a method"
  end

  private

  def builder
    loader = RBS::EnvironmentLoader.new
    loader.add(path: Pathname(File.join(NeverBlockTest::ROOT, "sig")))
    %w[timeout socket io-console].each { |library| loader.add(library:, version: nil) }
    RBS::DefinitionBuilder.new(env: RBS::Environment.from_loader(loader).resolve_type_names)
  end

  # The block returns the method object of a name.
  def compare(name, methods, definition)
    signed = definition.methods.select { |_, method| method.public? && method.implemented_in == definition.type_name }
    signed.each_key { |method| assert yield(method), "a signature of #{name} without a method" unless %i[initialize new].include?(method) }
    public_ones = methods.reject { |method| internal?(name, yield(method)) }
    assert_empty public_ones - definition.methods.keys, "methods of #{name} without a signature"
    (methods & signed.keys).each do |method|
      found = keywords(yield(method)) or next
      assert_equal found, signed_keywords(signed.fetch(method)), "keywords of #{name}, #{method}"
    end
  rescue NameError => error
    flunk "a signature of #{name} without a method: #{error.message}"
  end

  def internal?(name, method)
    return name == "NeverBlock::Scheduler" || INTERNAL.fetch(name, []).include?(method.name) unless method.source_location
    path, line = method.source_location
    comment = File.readlines(path).first(line - 1).reverse.take_while { |text| text.lstrip.start_with?("#") }
    comment.any? { |text| text.include?("@api private") }
  end

  # nil for C methods, whose keywords are not known, and for forwarding ones.
  def keywords(method)
    kinds = method.parameters
    return if method.source_location.nil? || kinds.any? { |kind, _| kind == :keyrest }
    kinds.filter_map { |kind, name| name if %i[key keyreq].include?(kind) }.sort
  end

  def signed_keywords(method)
    method.method_types.flat_map { |type|
      type.type.is_a?(RBS::Types::UntypedFunction) ? [] : type.type.required_keywords.keys + type.type.optional_keywords.keys
    }.uniq.sort
  end
end
