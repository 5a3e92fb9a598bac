# frozen_string_literal: true

require "test_helper"
require "neverblock/cli"

# Ruby is restarted once, for fibers with larger stacks and for a larger heap.
class CLIBootTest < Minitest::Test
  include NeverBlockTest::Helpers

  OWN = {fiber_vm_stack_size: 131_072, fiber_machine_stack_size: 524_288}.freeze

  def test_missing_variables
    assert_equal({"RUBY_FIBER_VM_STACK_SIZE" => "1048576", "RUBY_FIBER_MACHINE_STACK_SIZE" => "2097152"}, boot.needed)
    assert_equal({"RUBY_FIBER_MACHINE_STACK_SIZE" => "2097152"}, boot(vm: nil).needed)
    assert_equal({"RUBY_FIBER_VM_STACK_SIZE" => "1048576"}, boot(machine: 1_000).needed)
    assert_empty boot(vm: nil, machine: nil).needed
  end

  def test_variables_that_the_user_has_set_are_kept
    env = {"RUBY_FIBER_VM_STACK_SIZE" => "1", "RUBY_FIBER_MACHINE_STACK_SIZE" => "1"}
    assert_empty boot(env:).needed
    boot(env:).ensure
    assert_equal %w[RUBY_FIBER_MACHINE_STACK_SIZE RUBY_FIBER_VM_STACK_SIZE], env.keys.sort
    additions = quietly { boot(env: {"RUBY_GC_HEAP_0_INIT_SLOTS" => "1"}).additions }
    assert_equal %w[RUBY_GC_HEAP_1_INIT_SLOTS RUBY_GC_HEAP_2_INIT_SLOTS], additions.keys.grep(/HEAP/)
    refute_match(/HEAP_0/, additions[NeverBlock::CLI::Boot::GUARD])
  end

  def test_the_second_time_only_cleans_up
    env = {"HOME" => "/", **boot.additions}
    boot(env:).ensure
    assert_equal({"HOME" => "/"}, env)
  end

  def test_a_ruby_that_does_not_obey_is_not_started_again
    env = {**boot.additions}
    boot(env:, sizes: OWN).ensure
    assert_empty env
  end

  def test_the_command_is_this_process_s
    assert_equal [RbConfig.ruby, "-w", "-Ilib", "exe/neverblock", "serve"],
      boot(command_line: %w[/usr/bin/ruby3.3 -w -Ilib exe/neverblock serve]).command
    [nil, [], ["bundle exec neverblock serve"]].each do |command_line|
      assert_equal [RbConfig.ruby, $PROGRAM_NAME, *ARGV], boot(command_line:).command - ["--yjit"]
    end
  end

  # Ruby would print warnings about them.
  def test_the_heap_stays_as_it_is_with_warnings
    assert_empty boot.additions.keys.grep(/HEAP/)
    refute_empty quietly { boot.additions.keys.grep(/HEAP/) }
  end

  def test_an_app_with_a_large_heap_of_its_own_gets_no_more
    assert_empty quietly { boot(small: false).additions.keys.grep(/HEAP/) }
    assert_equal boot.needed, boot(small: false).needed
  end

  slow "it starts Ruby several times"
  def test_a_whole_process
    output = assert_ruby(<<~RUBY)
      require "tempfile"
      Tempfile.create(["program", ".rb"]) do |file|
        file.write(<<~'PROGRAM')
          require "neverblock/cli/boot"
          first = ENV["FIRST"] ||= Process.pid.to_s
          NeverBlock::CLI::Boot.new(vm: 1 << 20, machine: 2 << 20).ensure
          p RubyVM::DEFAULT_PARAMS.values_at(:fiber_vm_stack_size, :fiber_machine_stack_size)
          p [first == Process.pid.to_s, ARGV, $VERBOSE, ENV.keys.grep(/STACK|HEAP/)]
          collections = GC.count
          100_000.times { Object.new }
          p GC.count - collections < 3 unless $VERBOSE # otherwise a dozen
          def down(n) = n.zero? ? 0 : 1 + down(n - 1)
          p Fiber.new { down(9_000) }.resume
          $stdout.flush
        PROGRAM
        file.close
        folders = $LOAD_PATH.flat_map { |folder| ["-I", folder] }
        %w[-w -W1].each { |option| system(RbConfig.ruby, "--disable=gems", option, *folders, file.path, "a b", "c", exception: true) }
      end
    RUBY
    assert_equal ["[1048576, 2097152]", '[true, ["a b", "c"], true, []]', "9000",
      "[1048576, 2097152]", '[true, ["a b", "c"], false, []]', "true", "9000"], output.lines(chomp: true)
  end

  # The first execution of code under YJIT uses the most of C's stack: a twelfth more per call in Ruby 4.1 than in 4.0.
  def test_nine_thousand_calls_in_a_fiber_of_these_stacks
    directive = NeverBlock::Server::Directives::ALL[:stack_depth]
    environment = directive.settings.to_h do |setting|
      [NeverBlock::CLI::Boot::STACKS[setting.keyword], setting.default.to_s]
    end
    [[], ["--yjit"]].each do |options|
      next if options.any? && !defined?(RubyVM::YJIT)
      depth = (options.any? && RUBY_VERSION >= "4.1") ? 8_000 : 9_000
      assert_equal "#{depth}\n", assert_ruby(<<~RUBY, environment:, options:)
        Fiber.new { puts Object.new.instance_eval("def down(n) = n.zero? ? 0 : 1 + down(n - 1)\ndown(#{depth})") }.resume
      RUBY
    end
  end

  private

  def quietly
    verbose, $VERBOSE = $VERBOSE, false
    yield
  ensure
    $VERBOSE = verbose
  end

  def boot(vm: 1 << 20, machine: 2 << 20, small: true, env: {}, sizes: OWN, command_line: ["ruby"])
    NeverBlock::CLI::Boot.new(vm:, machine:, small:, env:, sizes:, command_line:)
  end
end
