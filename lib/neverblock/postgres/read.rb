# frozen_string_literal: true

module NeverBlock
  class Postgres
    # A read on the {FastPath}, or any statement of an open transaction ({Lease#ask}): what was called, and no more. It
    # becomes a {Statement} as soon as it needs the state of one: an error, an interrupt, a look at the connection by
    # {Relief} or {Overtime}.
    #
    #   read = Read.new(sql, params, 0, nil, classification.fingerprint, SessionDefaults::EMPTY, nil, 0.0, nil, nil)
    #   connection.ask(read, name)    # => PG::Result, or nil: now it is a statement
    #   read.statement                # => Statement, nil
    # @api private
    class Read
      # @return [String]
      attr_reader :sql
      # @return [Array]
      attr_reader :params
      # @return [Integer] 0 for text, 1 for binary results
      attr_reader :format
      # @return [PG::TypeMap, nil] the parameters' encoders
      attr_reader :encoders
      # @return [String, nil] its shape; nil: a lease's
      attr_reader :fingerprint
      # @return [SessionDefaults]
      attr_reader :session_defaults
      # @return [Object, nil] key of its prepared statement
      attr_reader :key
      # @return [Float] a prepared statement must be newer than this time, on the monotonic clock
      attr_reader :since
      # @return [Integer, nil] the cluster that it is for
      attr_reader :cluster
      # @return [Object] the scheduler of its fiber
      attr_reader :loop
      # @return [Statement, nil] what it has become
      attr_reader :statement
      # @return [PipelinedConnection, nil] the one that was lent to it
      attr_accessor :connection
      # @return [Boolean] whether it was given to libpq as a whole
      attr_accessor :sent

      # Positional, since keywords cost a Hash. The parameters are those of {Statement#set_up}. What is shared may be
      # sent a second time, when the caller has changed the values: they are copied. What a lease runs has no
      # fingerprint, and is sent once.
      def initialize(sql, params, format, encoders, fingerprint, session_defaults, key, since, types, cluster,
        kind = :read)
        @sql = fingerprint ? Statement.own(sql) : sql
        @params = fingerprint ? Statement.own(params) : params
        @format = format
        @encoders = encoders
        @fingerprint = fingerprint
        @session_defaults = session_defaults
        @key = key
        @since = since
        @types = types
        @cluster = cluster
        @kind = kind
        @sent = false
        @loop = Scheduler.current
        @fiber = Fiber.current
        @statement = @connection = nil
      end

      # @param connection [PipelinedConnection]
      # @param at [Float] when it was sent, on the monotonic clock
      # @return [Statement] the one that it becomes
      def become(connection, at)
        @statement = Statement.allocate.set_up(Statement.own(@sql), @fingerprint ? @params : Statement.own(@params),
          session_defaults: @session_defaults, format: @format, encoders: @encoders, types: @types, key: @key,
          since: @since, fingerprint: @fingerprint, cluster: @cluster, kind: @kind, judged: true)
        @statement.of(@fiber, @loop)
        @statement.sending(false)
        @statement.connection = connection
        @statement.sent_at = @statement.started_at = at
        @statement
      end
    end
  end
end
