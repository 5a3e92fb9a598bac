# frozen_string_literal: true

# Runs a gem's RSpec suite in one process: as the suite is, or with our adapter in the place of the stock one, in a fiber of a loop,
# if CONFORMANCE_ADAPTER is "neverblock_postgresql". Its arguments are RSpec's.
require "rspec/core"

unless ENV["CONFORMANCE_ADAPTER"] == "neverblock_postgresql"
  exit RSpec::Core::Runner.run(ARGV)
end

require "neverblock"
require "logger"
require "neverblock/active_record"

# The suites name the stock adapter in code and in files of their own.
ActiveRecord::DatabaseConfigurations::HashConfig.prepend(Module.new do
  def initialize(environment, name, configuration)
    configuration = configuration.merge(adapter: "neverblock_postgresql") if configuration[:adapter] == "postgresql"
    super
  end
end)
ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
status = NeverBlock.run { RSpec::Core::Runner.run(ARGV) }

# Equal results say nothing if the suite has connected with the stock adapter after all.
adapter = ActiveRecord::Base.connection_pool.with_connection { |connection| connection.class.name }
abort "the suite ran with #{adapter}, not with ours" unless adapter == "ActiveRecord::ConnectionAdapters::NeverBlockPostgreSQLAdapter"
exit status
