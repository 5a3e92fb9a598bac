# frozen_string_literal: true

# A PostgreSQL of the demo's own: started when it is first asked for, removed after the block.
#
#   Demo::Database.open do |database|
#     database.server.query("select 1")      # => "1"
#   end
require_relative "../test/support/postgres"

module Demo
  class Database
    # @yieldparam database [Database]
    # @return [Object] the block's value
    def self.open
      database = new
      yield database
    ensure
      database&.stop
    end

    # @return [NeverBlockTest::PostgresServer]
    # @raise [RuntimeError] if it does not start, with its output
    def server = @server ||= NeverBlockTest::PostgresServer.start

    # @param name [String] what a program calls itself
    # @return [Integer] how many connections it has
    def connections(name) = server.query("select count(*) from pg_stat_activity where application_name = '#{name}'").to_i

    # @param name [String] what a program calls itself
    # @return [Hash{String=>String}] environment by which it finds this
    def environment(name) = {"PGHOST" => server.folder, "PGPORT" => server.port.to_s, "PGUSER" => server.user, "PGAPPNAME" => name}

    # @return [void]
    def stop = @server&.stop
  end
end
