# frozen_string_literal: true

module NeverBlock
  class Postgres
    # One statement: what to send, the fiber that waits for it, and its outcome.
    #
    #   statement = Statement.new("select $1::int", [1], session_defaults:)
    #   multiplexer.run(statement)   # => PG::Result
    #
    # Its states ({#state}), and what leads from one to the next (test/integration/postgres/states_test.rb):
    #
    #   unplaced ──granted──> placed ──sent──> sent ──answered, connection lost──> done
    #      ^  │                 │ ^              │ │
    #      │  └─no place────────┼─┼──────────────┼─┼────────────────────────────> done
    #      ├──connection lost───┘ └──name gone───┘ │
    #      └──cancelled for others─────────────────┘
    #
    # unplaced: not queued yet, queued, or woken to ask again. placed: in a {PipelinedConnection}'s outbox. sent: it may
    # take effect. In any state it becomes abandoned when its fiber stops waiting: an unsent statement is then never
    # sent, and the result of a sent one is dropped.
    # @api private
    class Statement
      include Request

      NONE = [].freeze

      # Classes of parameters that libpq's encoders turn into text without calling user code.
      PLAIN = [String, Integer, Float, NilClass, TrueClass, FalseClass, Symbol, Hash].to_h { |known| [known, true] }
        .compare_by_identity.freeze
      private_constant :PLAIN

      # Statements that a cancel undoes completely, unless they reach functions that may act outside of their
      # transaction. CREATE INDEX CONCURRENTLY, for example, is not one.
      UNDONE_BY_CANCEL = /\A[\s(]*(?:select|insert|update|delete|merge|with|values|table)\b/i
      # Statements of which an error or a cancel undoes only a part; behind comments.
      PARTLY = %r{
        \A(?:[\s(]|--[^\n]*\n|/\*.*?\*/)*(?:vacuum|analyze|analyse|cluster|reindex|call|do)\b|\bconcurrently\b
      }imx
      # SQLSTATE query_canceled.
      CANCELLED = "57014"

      # Factor by which a statement that was cancelled for others may run longer the next time. The sum of its attempts
      # stays within twice the last.
      PATIENCE_FACTOR = 2
      private_constant :UNDONE_BY_CANCEL, :PARTLY, :CANCELLED, :PATIENCE_FACTOR

      # Steps of a statement's group of messages, before its Sync.
      RUN = %i[run].freeze
      PREPARE = %i[prepare run].freeze

      # @return [String]
      attr_reader :sql
      # @return [Array]
      attr_reader :params
      # @return [Integer] 0 for text, 1 for binary results
      attr_reader :format
      # @return [Array<Integer>, nil] OIDs of the parameters' types
      attr_reader :types
      # @return [PG::TypeMap, nil] the parameters' encoders
      attr_reader :encoders
      # @return [SessionDefaults]
      attr_reader :session_defaults
      # @return [Object, nil] key of its prepared statement: equal for equal text and types
      attr_reader :key
      # @return [Float] a prepared statement must be newer than this time, on the monotonic clock
      attr_reader :since
      # @return [String, nil] its shape, by which {Timings} learn its duration; nil: it may not share
      attr_reader :fingerprint
      # @return [Boolean] whether its Parse has given it a name on its connection: it is the first of its text there
      attr_reader :named_first
      # @return [String, nil] the BEGIN that is sent before it
      attr_reader :opening
      # @return [Object, nil] the scheduler of the waiting fiber
      attr_reader :loop
      # @return [PipelinedConnection, nil] the connection where it has its place
      attr_accessor :connection
      # @return [Integer, nil] the cluster that it is for, as {ServerHistory} counts them
      attr_reader :cluster
      # @return [Proc, nil] gets its notices
      attr_reader :notices
      # @return [Float, nil] when it was sent; all times are of the monotonic clock
      attr_accessor :sent_at
      # @return [Float, nil] when it began to run: when it was sent, or when the one before it ended
      attr_accessor :started_at
      # @return [Statement, nil] the statement that this one audits
      attr_accessor :audited
      # @return [Float, nil] earliest time at which its result arrived
      attr_accessor :ended_at
      # @return [Float, nil] when its result was read
      attr_accessor :read_at
      # @return [Float] seconds that it ran at least
      def running_time = [ended_at - started_at, 0.0].max
      # @return [Float] seconds that it ran at most
      def longest_time = read_at - started_at
      # @return [Statement, nil] the audit that is sent behind it, and completes it
      attr_reader :check
      # @return [Boolean, nil] whether its {Pipeline} finds a place for it; nil: it is in none, or has not asked yet
      attr_accessor :gathered
      # @return [Boolean] whether it must be alone on its connection
      attr_accessor :alone
      # @return [Float, nil] seconds that it may run until {Relief} cancels it again; nil: it was not cancelled yet
      attr_reader :patience
      # @return [String, nil] why it may leave session state although its text shows none: {Catalogue}
      attr_reader :doubt

      # @return [Boolean] whether all that it reaches is known to act inside of its transaction alone
      def harmless? = @judged && @doubt.nil?

      def initialize(...) = set_up(...)

      # The hot path allocates and then calls this: Class#new makes a Hash of the keywords, a call from Ruby does not.
      # @return [self]
      def set_up(sql, params = NONE, session_defaults:, format: 0, types: nil, encoders: nil, key: nil, since: 0.0,
        fingerprint: nil, opening: nil, notices: nil, alone: false, kind: :read, cluster: nil, doubt: nil,
        judged: false)
        @sql = sql
        @params = (encoders.nil? || PG::TypeMapAllStrings === encoders) ? texts(params) : params
        @session_defaults = session_defaults
        @format = format
        @types = types
        @encoders = encoders
        @key = key
        @since = since
        @fingerprint = fingerprint
        @opening = opening
        @notices = notices
        @alone = alone
        @doubt = doubt
        @judged = judged
        @kind = kind
        @cluster = cluster
        @loop = Scheduler.current
        @fiber = Fiber.current
        @done = @abandoned = @parked = @woken = @resent = false
        @connection = @gathered = @check = @audited = @result = @error = @refusal = nil
        @sent_at = @started_at = @ended_at = @read_at = @queued_at = @patience = nil
        self
      end

      # Another fiber than the present one waits for it.
      # @param fiber [Fiber]
      # @param scheduler [Object]
      # @return [void]
      def of(fiber, scheduler)
        @fiber = fiber
        @loop = scheduler
      end

      # @return [Boolean] whether its outcome is final
      def done? = @done

      # @return [Boolean] whether it was given to libpq
      def sent? = !@sent_at.nil?

      # @return [Statement] the one whose fiber waits: itself, or for an audit the audited one
      def awaited = @audited || self

      # @return [Boolean] whether it needs a connection exclusively
      def exclusive? = @alone

      # Copies what the caller could change while the statement waits.
      # @param value [Object] a parameter, or an Array or Hash of them
      # @return [Object] a copy that shares no mutable object with it
      def self.own(value)
        return value if value.equal?(NONE)
        case value
        when String then value.frozen? ? value : value.dup
        when Array then value.dup.map! { |element| own(element) } # keeps its class, by which encoders are chosen
        when Hash then value.dup.transform_values! { |element| own(element) }
        else value
        end
      end

      # A statement of our own, for which no fiber waits.
      # @param sql [String]
      # @param opening [String, nil] the BEGIN that is sent before it
      # @return [Statement]
      def self.orphan(sql, opening: nil) = new(sql, session_defaults: nil, kind: :own, opening:).tap(&:abandon)

      # @param sql [String]
      # @return [String] the same text; in UTF-8 if its encoding has no ASCII, such as UTF-16, as pg would send it
      # @raise [EncodingError] if it has no such characters
      def self.readable(sql) = sql.encoding.ascii_compatible? ? sql : sql.encode(Encoding::UTF_8)

      # Sends an audit behind it. The statement is done when the audit is.
      # @param sql [String] of {Audit}
      def audit_by(sql) = @check = Statement.orphan(sql).tap { |check| check.audited = self }

      # @return [PG::Result, nil] the server's
      attr_reader :result

      # @return [Boolean] whether it needs a Parse message of its own: for a name, or for the types of its parameters
      def parsed? = !@key.nil? || !@types.nil?

      # @param prepare [Boolean] whether its Parse is in the same group
      def sending(prepare)
        @steps = prepare ? PREPARE : RUN
        @steps = [:open, *@steps] if @opening
        @step = 0
        @named_first = false
      end

      # Its Parse gives it a name.
      def naming = @named_first = true

      # @return [Symbol] :open, :prepare or :run
      def step = @steps[@step] || :run

      # All messages of the present step have arrived.
      def stepped = @step += 1

      # @param result [PG::Result] of the present step
      # @param status [Integer] the result's PG::PGRES_…
      def took(result, status = result.result_status)
        case status
        when PG::PGRES_FATAL_ERROR then @error ||= result
        when PG::PGRES_PIPELINE_ABORTED then result.clear
        else (step == :run) ? @result = result : result.clear
        end
      end

      # @return [PG::Result, nil] the server's error
      attr_reader :error

      # It fails without a server's error: its parameters have no encoding, its connection was lost, it waited too long.
      # @param exception [Exception]
      def refuse(exception) = @refusal ||= exception

      # @return [Boolean] whether it must be sent once more, without a name. It was not executed, because its name did
      #   not exist or its plan was older than a change of the table
      def resend?
        return false if @resent || @key.nil? || @opening || !nameless?(@error)
        @error = @result = @sent_at = @key = nil
        @resent = true
      end

      # @return [Boolean] whether it may be cancelled for others, and sent again: it is known that a cancel undoes it
      def displaceable?
        harmless? && (@kind == :read || UNDONE_BY_CANCEL.match?(@sql.b)) # texts may be of any bytes
      end

      # @param sql [String] of any bytes
      # @return [Boolean] whether parts of it may have been committed although it has failed
      def self.partly?(sql) = PARTLY.match?(sql.b)

      # @return [Boolean] whether the server has cancelled it
      def cancelled? = !@error.nil? && @error.error_field(PG::PG_DIAG_SQLSTATE) == CANCELLED

      # It was cancelled for others before it took effect. Its fiber looks for a connection where it is alone, and where
      # it may run twice as long.
      def displace
        @patience = PATIENCE_FACTOR * longest_time
        @error = @result = @sent_at = @connection = @check = nil
        @alone = true
        wake
      end

      # Its {Pipeline} has ended before it got a place: its fiber looks for one.
      def dispersed
        @gathered = false
        wake
      end

      # The statement waits for a place from now on.
      def queued = @queued_at ||= Clock.now

      # @return [Float, nil] when it began to wait for a place
      attr_reader :queued_at

      # @return [Fiber, nil] the one that waits for it
      def owner = @fiber

      # @return [Float, nil] since when it holds a connection, if it is exclusive
      def held_since = @sent_at

      # @return [Float] seconds that it waited for a place
      def queue_time = (@queued_at && @sent_at) ? @sent_at - @queued_at : 0.0

      # @param connection [PipelinedConnection] the one where it gets its place
      def granted(connection) = connection.push(self)

      # @return [Boolean] whether it is in flight and may change data: if its fiber stops waiting, its effect is unknown
      def effect_unknown? = !@done && sent? && writes?

      # @return [Symbol] the kind of its {Classification}; :own for one of our own
      attr_reader :kind

      # @return [Boolean] whether it may change data
      def writes? = @kind != :read

      # @return [String, nil] the server's command tag; nil if it failed or was not sent
      def tag = (@result&.cmd_status unless @error)

      # @return [Boolean] whether it may have changed a definition
      def alters?
        return false if @kind == :read
        @error ? Statement.partly?(@sql) : !@result.nil? && Alteration.by?(@sql, tag)
      end

      # @return [Boolean] whether other sessions may see that change
      def defines? = alters? && Alteration.lasting?(sql)

      # Its outcome is final: wakes its fiber.
      def finish
        @done = true
        wake
      end

      # @param exception [Exception]
      def fail(exception)
        refuse(exception)
        finish
      end

      # Sleeps until {#wake}; not at all if that was called since the last sleep.
      # @param seconds [Numeric, nil] the longest sleep; nil: no limit
      # @return [Boolean] false if it was not woken in time
      def park(seconds = nil)
        @parked = true
        # A wake-up between the end of the time and this line is told by @woken alone.
        @woken || @loop.block(self, seconds) || @woken
      ensure
        @parked = @woken = false
      end

      # Wakes its fiber. Thread-safe.
      def wake
        @woken = true
        @loop.unblock(self, @fiber) if @parked
      end

      # The fiber no longer waits for it.
      def abandon
        @abandoned = true
        @fiber = nil
      end

      # @return [PG::Result]
      # @raise [PG::Error] the server's error, or why the statement was not sent
      def value
        raise @refusal if @refusal
        @error&.check
        @result
      end

      # @return [:unplaced, :placed, :sent, :done, :abandoned]
      def state
        return :done if @done
        return :abandoned if @abandoned
        return :sent if sent?
        @connection ? :placed : :unplaced
      end

      # @return [String]
      def inspect = "#<NeverBlock::Postgres::Statement #{state} #{sql.to_s[0, 60].inspect}>"

      private

      # Not an error of another prepared statement, which a function had executed: it may have acted before that.
      def nameless?(error)
        return if error.error_field(PG::PG_DIAG_CONTEXT)
        case error.error_field(PG::PG_DIAG_SQLSTATE)
        when "26000" then true
        when "0A000" then error.error_field(PG::PG_DIAG_SOURCE_FUNCTION) == "RevalidateCachedQuery"
        end
      end

      # Calls `to_s` of parameters in the fiber that asks, since it may wait. The fiber that sends for all must not.
      def texts(params)
        unless Array === params
          raise TypeError, "params: #{params.inspect[0, 80]} is not an Array: put the values of $1, $2 … into one"
        end
        return params if params.all? { |value| PLAIN[value.class] }
        # "#{}" rather than to_s, which may return anything.
        params.map { |value| PLAIN[value.class] ? value : "#{value}" } # standard:disable Style/RedundantInterpolation
      end
    end
  end
end
