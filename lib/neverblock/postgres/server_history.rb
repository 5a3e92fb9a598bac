# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Makes sure that all connections of a {Multiplexer} lead to one server at a time: consecutive statements of a fiber
    # go to any of them.
    #
    #   ServerHistory.check(pg)          # raises for host=a,b without target_session_attrs=read-write
    #   server_history = ServerHistory.new
    #   server_history.arrive(server)    # => true: a different server than before
    # @api private
    class ServerHistory
      # Values of target_session_attrs that fit one server at a time.
      SINGLE_SERVER = %w[read-write primary].freeze

      # Folders where ruby-pg looks for a socket if no host is given.
      SOCKETS = %w[/var/run/postgresql /run/postgresql /tmp].freeze

      # Former servers that are remembered.
      MAX_REMEMBERED = 20

      private_constant :SINGLE_SERVER, :SOCKETS, :MAX_REMEMBERED

      # @param pg [PG::Connection]
      # @return [void]
      # @raise [ConfigurationError]
      def self.check(pg)
        given = pg.conninfo_hash
        hosts = (given[:host] || given[:hostaddr]).to_s.split(",")
        return if hosts == SOCKETS || SINGLE_SERVER.include?(given[:target_session_attrs])
        ports = given[:port].to_s.split(",")
        places = hosts.each_with_index.map { |host, n| [host, ports[n] || ports.first] }.uniq
        return if places.size < 2
        raise ConfigurationError, "host: #{places.map { |place| place.compact.join(":") }.join(", ")} names several " \
          "servers, and statements of one fiber would go to any of them. " \
          "Give each its own configuration, or set target_session_attrs=read-write to use the one that takes writes"
      end

      def initialize
        @current = @cluster = nil
        @clusters = 0
        @left = []
      end

      # @return [Integer] number of different clusters so far; with a new one cached OIDs and schema are invalid
      attr_reader :clusters

      # @return [Server, nil] the present one
      attr_reader :current

      # @param server [Server] the one that a new connection has reached
      # @return [Boolean] whether it is a different one than before
      # @raise [ConfigurationError] if it is a former one: then there are several at once
      def arrive(server)
        return false if server == @current
        if @left.include?(server)
          raise ConfigurationError, "connections lead to several servers in turn, #{server} and #{@current}, and " \
            "statements of one fiber would go to any of them. " \
            "Give each its own configuration, with a host that leads to it alone"
        end
        before = leave
        @current = server
        @clusters += 1 if server.cluster != @cluster
        @cluster = server.cluster
        !before.nil?
      end

      # The present server becomes a former one.
      # @return [Server, nil] that one
      def leave
        before, @current = @current, nil
        @left.push(before).shift([@left.size - MAX_REMEMBERED, 0].max) if before
        before
      end
    end
  end
end
