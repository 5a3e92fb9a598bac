# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Opens real connections: applies the session defaults, checks what the sharing relies on, and reads the baseline.
    #
    #   factory = ConnectionFactory.new(-> { PG.connect(url) }, audit: Audit.new, depth: 64)
    #   factory.call(SessionDefaults::EMPTY, multiplexer)   # => PipelinedConnection
    # @api private
    class ConnectionFactory
      # @param connect [#call] returns a new PG::Connection
      # @param audit [Audit]
      # @param depth [Integer] maximum number of statements on a shared connection
      # @param shares [Boolean] whether statements share connections
      # @param pgbouncer [:transaction, :session, nil] pool mode of the PgBouncer in between
      # @param lifespan [Lifespan]
      # @param compares [Boolean] as {PipelinedConnection#initialize} takes it
      def initialize(connect, audit:, depth:, lifespan:, shares: true, pgbouncer: nil, compares: true)
        @connect = connect
        @audit = audit
        @depth = NeverBlock::Options.positive("depth", depth)
        @shares = shares
        @pgbouncer = pgbouncer
        @lifespan = lifespan
        @compares = compares
        @fresh = {}.compare_by_identity
      end

      # Called in a forked child: lets go of connections that the parent was opening.
      # @return [void]
      def disown
        @fresh.each_key { |pg| pg.socket_io.reopen(IO::NULL) }
        @fresh.clear
      end

      # @param session_defaults [SessionDefaults]
      # @param owner [Multiplexer]
      # @return [PipelinedConnection]
      # @raise [PG::Error, ConfigurationError]
      def call(session_defaults, owner)
        pg = @connect.call
        @fresh[pg] = true
        ServerHistory.check(pg)
        connection =
          (@pgbouncer == :transaction) ? passing(pg, session_defaults, owner) : lasting(pg, session_defaults, owner)
        connection.reported.accept
        connection.age = @lifespan.begin
        whole = connection
      ensure
        @fresh.delete(pg)
        pg&.close unless whole
      end

      private

      # A connection with a session.
      def lasting(pg, session_defaults, owner)
        session_defaults.apply(pg)
        baseline = @audit.read(pg.exec(@audit.sql))
        server_defaults = ServerDefaults.read(pg)
        server, process = Server.ask(pg)
        SafetyChecks.no_pooler(pg, process) unless @pgbouncer
        SafetyChecks.check(pg, baseline.fetch("search_path")) if @shares
        server = nil if @pgbouncer
        PipelinedConnection.new(pg, session_defaults, owner, capacity: @depth, server:,
          compares: @compares).tap do |connection|
          connection.baseline = baseline
          connection.server_defaults = server_defaults
          connection.audited_at = Clock.now
        end
      end

      # A connection by a pooler, where each transaction may get another session: audits would tell nothing.
      def passing(pg, session_defaults, owner)
        PgBouncer.verify(pg, session_defaults, @audit)
        SafetyChecks.check(pg, pg.exec("SHOW search_path").getvalue(0, 0)) if @shares
        names = PgBouncer.names?(pg)
        capacity = names ? @depth : 1
        PipelinedConnection.new(pg, session_defaults, owner, capacity:, names:, deallocates: false).tap do |connection|
          connection.audited_at = Float::INFINITY
        end
      end
    end
  end
end
