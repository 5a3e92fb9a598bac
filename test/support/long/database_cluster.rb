# frozen_string_literal: true

require "tmpdir"
require_relative "../postgres"

module NeverBlockTest
  # A primary at a fixed path, which stays the same after a standby has taken over.
  #
  #   DatabaseCluster.open(max_connections: 60) do |cluster|
  #     cluster.socket       # the path of a unix socket
  #   cluster.fail_over    # a new server answers there, with all committed data
  #     cluster.primary      # => PostgresServer
  #   end
  class DatabaseCluster
    include Clock

    # @param settings [Hash{Symbol=>Object}] as in postgresql.conf
    # @yieldparam cluster [DatabaseCluster] that is stopped afterwards
    # @return [Object] the block's value
    def self.open(**settings)
      cluster = new(settings)
      yield cluster
    ensure
      cluster&.stop
    end

    # @return [PostgresServer]
    attr_reader :primary

    # @api private
    def initialize(settings)
      @settings = settings
      @folder = Dir.mktmpdir("nb", "/tmp")
      File.chmod(0o755, @folder) # a pooler runs as another user
      point(PostgresServer.start(**settings))
    end

    # @return [String] the path of the primary's socket
    def socket = "#{@folder}/primary"

    # Makes a standby, shuts the primary down, which first sends the standby all committed data, and promotes the
    # standby.
    # @return [void]
    def fail_over
      standby = PostgresServer.replica(primary, **@settings)
      wait_for_streaming
      before = primary
      before.shut_down
      standby.promote
      point(standby)
      before.stop
    end

    # @return [void]
    def stop
      primary&.stop
      FileUtils.rm_rf(@folder)
    end

    private

    def point(server)
      File.symlink(server.socket, "#{socket}.new")
      File.rename("#{socket}.new", socket)
      @primary = server
    end

    def wait_for_streaming
      deadline = now + LIMIT
      until primary.query("select count(*) from pg_stat_replication where state = 'streaming'") == "1"
        raise "the standby did not begin to stream within #{LIMIT} s" if now > deadline
        sleep 0.02 # real: the standby's process
      end
    end
  end
end
