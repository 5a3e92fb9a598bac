# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Sees to it that all connections of a {Multiplexer} lead to one server, since consecutive statements of a fiber go to any of them.
    #
    #   ServerHistory.check(pg)          # raises for host=a,b, unless it is to be the one that takes writes
    #   server_history = ServerHistory.new
    #   server_history.arrive(server)     # => true: another server than before answers
    # @api private
    class ServerHistory
      # Of target_session_attrs: those of which there is one at a time.
      SINGLE_SERVER = %w[read-write primary].freeze

      # Where ruby-pg looks for a socket if no host is given.
      SOCKETS = %w[/var/run/postgresql /run/postgresql /tmp].freeze

      # Servers that were left and are remembered.
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
        raise ConfigurationError, "host: #{places.map { |place| place.compact.join(":") }.join(", ")} is several servers, and statements of one fiber would go to any of them. " \
          "Give each its own configuration, or say target_session_attrs=read-write if it is to be the one that takes writes"
      end

      def initialize
        @current = @cluster = nil
        @clusters = 0
        @left = []
      end

      # @return [Integer] how many clusters there have been: with another one all that is known of tables and types is void
      attr_reader :clusters

      # @return [Server, nil] the one
      attr_reader :current

      # @param server [Server] that a new connection has reached
      # @return [Boolean] whether it is another one than before
      # @raise [ConfigurationError] if it is one that was left before: then there are several at once
      def arrive(server)
        return false if server == @current
        if @left.include?(server)
          raise ConfigurationError, "connections lead to several servers in turn, #{server} and #{@current}, and statements of one fiber would go to any of them. " \
            "Give each its own configuration, with a host that leads to it alone"
        end
        before = leave
        @current = server
        @clusters += 1 if server.cluster != @cluster
        @cluster = server.cluster
        !before.nil?
      end

      # Whatever answers next is another one.
      # @return [Server, nil] the one so far
      def leave
        before, @current = @current, nil
        @left.push(before).shift([@left.size - MAX_REMEMBERED, 0].max) if before
        before
      end
    end
  end
end
