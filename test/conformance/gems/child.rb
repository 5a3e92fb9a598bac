# frozen_string_literal: true

# Runs a gem's suite in one process: unchanged, or with our adapter instead of the stock one, in a fiber of a loop, if
# CONFORMANCE_ADAPTER is "neverblock_postgresql":
#
#   ruby child.rb RESULT rspec SEED [ARGUMENT …]       # RSpec's arguments
#   ruby child.rb RESULT minitest SEED FILE …          # test files
#
# RESULT becomes a JSON list of the tests: name, status (passed, failed, pending), message. CONFORMANCE_LOAD names files
# to load before the tests of Minitest, CONFORMANCE_EXCLUDE is a pattern of tests to leave out.
require "json"
require_relative "examples"

result, runner, seed, *arguments = ARGV
ours = ENV["CONFORMANCE_ADAPTER"] == "neverblock_postgresql"
adapters = []

require "active_record"
require "active_record/connection_adapters/postgresql_adapter"
ActiveRecord::ConnectionAdapters::PostgreSQLAdapter.prepend(Module.new { define_method(:initialize) { |*given, **options, &block| super(*given, **options, &block).tap { adapters << self.class.name } } })

if ours
  require "neverblock"
  require "logger"
  require "neverblock/active_record"

  # The suites name the stock adapter in code, in files and in URLs.
  replaced = lambda do |configuration|
    configuration = configuration.symbolize_keys
    (configuration[:adapter] == "postgresql") ? configuration.merge(adapter: "neverblock_postgresql") : configuration
  end
  ActiveRecord::DatabaseConfigurations::HashConfig.prepend(Module.new do
    define_method(:initialize) { |environment, name, configuration| super(environment, name, replaced.call(configuration)) }
  end)
  ActiveRecord::DatabaseConfigurations::UrlConfig.prepend(Module.new { define_method(:build_url_hash) { replaced.call(super()) } })
  # Ignores Rails' default, which a suite may set again when it makes an app: it isn't for a loop.
  ActiveSupport::IsolatedExecutionState.singleton_class.prepend(Module.new { define_method(:isolation_level=) { |_level| super(:fiber) } })
  ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
end

examples = (runner == "rspec") ? Conformance::Gems::Examples.rspec(seed, arguments) : Conformance::Gems::Examples.minitest(seed, arguments)
tests = ours ? NeverBlock.run { examples.call } : examples.call

# Equal results prove nothing if the suite has used another adapter, or none.
wanted = ours ? "ActiveRecord::ConnectionAdapters::NeverBlockPostgreSQLAdapter" : "ActiveRecord::ConnectionAdapters::PostgreSQLAdapter"
abort "the suite ran with #{adapters.uniq.inspect}, not with #{wanted}" unless adapters.uniq == [wanted]
File.write(result, JSON.generate(tests))
exit!(0) # an exit handler of the suite might interfere
