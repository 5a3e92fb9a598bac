# frozen_string_literal: true

module NeverBlock
  class Postgres
    # One statement on its way: what is to be sent, who waits for it, and what came of it.
    #
    #   statement = Statement.new("select $1::int", [1], session_defaults:)
    #   multiplexer.run(statement)   # => PG::Result
    #
    # Its states ({#state}), and what leads from one to the next; test/integration/postgres_states_test.rb walks each arrow:
    #
    #   unplaced ──granted──> placed ──sent──> sent ──answered, connection lost──> done
    #      ^  │                 │ ^              │ │
    #      │  └─no place────────┼─┼──────────────┼─┼────────────────────────────> done
    #      ├──connection lost───┘ └──name gone───┘ │
    #      └──cancelled for others─────────────────┘
    #
    # unplaced: in no queue yet, in one, or told to ask again. placed: in a {PipelinedConnection}'s outbox. sent: it may take effect. A fiber that
    # stops waiting makes it abandoned, whatever it is: unsent it is never sent, sent its answer is dropped when that comes.
    # @api private
    class Statement
      include Request

      NONE = [].freeze

      # Classes of parameters that become text without any code of theirs, or need not.
      PLAIN = [String, Integer, Float, NilClass, TrueClass, FalseClass, Symbol, Hash].to_h { |known| [known, true] }.compare_by_identity.freeze
      private_constant :PLAIN

      # What the server says of definitions, and of what may have had some in it.
      ALTERING = /\A(?:ALTER|CREATE|DROP|IMPORT|DO|CALL)\b/
      # What others never find.
      TEMPORARY = /\A\s*create\s+(?:or\s+replace\s+)?(?:(?:local|global)\s+)?temp/i
      # Words of definitions, for several statements in one text, of which the server tells the last.
      DEFINING = /\b(?:alter|call|create|do|drop|execute|import)\b/i
      private_constant :ALTERING, :TEMPORARY, :DEFINING

      # What is undone as a whole when it is cancelled; an index that is built concurrently is not, say.
      UNDONE_BY_CANCEL = /\A[\s(]*(?:select|insert|update|delete|merge|with|values|table)\b/i
      # query_canceled
      CANCELLED = "57014"

      # By how much a statement that is cancelled for others may run for longer the next time: the sum of its attempts stays within twice its last.
      PATIENCE_FACTOR = 2
      private_constant :UNDONE_BY_CANCEL, :CANCELLED, :PATIENCE_FACTOR

      # What a statement's group of messages consists of, up to its Sync.
      RUN = %i[run].freeze
      PREPARE = %i[prepare run].freeze

      # @return [String]
      attr_reader :sql
      # @return [Array]
      attr_reader :params
      # @return [Integer] 0 for text, 1 for binary results
      attr_reader :format
      # @return [Array<Integer>, nil] the parameters' types
      attr_reader :types
      # @return [PG::TypeMap, nil] what encodes the parameters
      attr_reader :encoders
      # @return [SessionDefaults]
      attr_reader :session_defaults
      # @return [Object, nil] what it is prepared by: the same for the same text and types
      attr_reader :key
      # @return [Float] a name must have been parsed for that key after this time, on the monotonic clock
      attr_reader :since
      # @return [String, nil] the shape that its time is learnt by
      attr_reader :fingerprint
      # @return [String, nil] the BEGIN that goes out with it
      attr_reader :opening
      # @return [Object, nil] the scheduler of the fiber that waits
      attr_reader :loop
      # @return [PipelinedConnection, nil] where it has its place
      attr_accessor :connection
      # @return [Integer, nil] which of the clusters, one after the other, it is for
      attr_reader :cluster
      # @return [Proc, nil] what gets its notices
      attr_reader :notices
      # @return [Float, nil] when it went out
      attr_accessor :sent_at
      # @return [Float, nil] when it began to run: when it went out, or the one before it was done
      attr_accessor :started_at
      # @return [Statement, nil] what this one audits
      attr_accessor :audited
      # @return [Float, nil] when its answer came, at the earliest
      attr_accessor :ended_at
      # @return [Float, nil] when its answer was read
      attr_accessor :read_at
      # @return [Float] seconds that it ran, at least
      def running_time = [ended_at - started_at, 0.0].max
      # @return [Float] seconds that it ran, at most
      def longest_time = read_at - started_at
      # @return [Statement, nil] the audit that is sent behind it: it is done when that is
      attr_reader :check
      # @return [Boolean, nil] whether its {Pipeline} is to find a place for it; nil if it has none, or has not been asked
      attr_accessor :gathered
      # @return [Boolean] whether no other statement may be behind it
      attr_accessor :alone
      # @return [Float, nil] seconds that it may run before it is cancelled for others again; nil: it never was
      attr_reader :patience
      # @return [String, nil] why it may leave something in its session: {Catalogue}
      attr_reader :doubt

      def initialize(...) = set_up(...)

      # What is made for each statement is allocated and set up: Class#new makes a Hash of the keywords, a call of Ruby's does not.
      # @return [self]
      def set_up(sql, params = NONE, session_defaults:, format: 0, types: nil, encoders: nil, key: nil, since: 0.0, fingerprint: nil, opening: nil, notices: nil, alone: false, kind: :read, cluster: nil, doubt: nil)
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
        @kind = kind
        @cluster = cluster
        @loop = Scheduler.current
        @fiber = Fiber.current
        @done = @abandoned = @parked = @woken = @resent = false
        @connection = @gathered = @check = @audited = @result = @error = @refusal = @sent_at = @started_at = @ended_at = @read_at = @queued_at = @patience = nil
        self
      end

      # @return [Boolean] whether nothing more will come of it
      def done? = @done

      # @return [Boolean] whether it was given to libpq
      def sent? = !@sent_at.nil?

      # @return [Statement] whose fiber waits for it: a question what a statement left has none of its own
      def awaited = @audited || self

      # @return [Boolean] whether its fiber sleeps until it is done, or has something to do
      def parked? = @parked

      # @return [Boolean] whether it needs a connection of its own
      def exclusive? = @alone

      # What is sent is what was asked, however long it waits and whatever becomes of the objects meanwhile.
      # @param value [Object] a parameter, or an Array or Hash of them
      # @return [Object] of which nothing that may change is the caller's
      def self.own(value)
        return value if value.equal?(NONE)
        case value
        when String then value.frozen? ? value : value.dup
        when Array then value.dup.map! { |element| own(element) } # of its class, which encoders go by
        when Hash then value.dup.transform_values! { |element| own(element) }
        else value
        end
      end

      # @param sql [String] that nobody waits for
      # @param opening [String, nil] what goes out with it
      # @return [Statement]
      def self.orphan(sql, opening: nil) = new(sql, session_defaults: nil, kind: :own, opening:).tap(&:abandon)

      # It is done when what it may have left behind has been looked for.
      # @param sql [String] that asks what a connection keeps
      def audit_by(sql) = @check = Statement.orphan(sql).tap { |check| check.audited = self }

      # @return [PG::Result, nil] as it came
      attr_reader :result

      # @return [Boolean] whether it is parsed by itself: to be kept under a name, or since its parameters have types
      def parsed? = !@key.nil? || !@types.nil?

      # @param prepare [Boolean] whether it is parsed in the same group
      def sending(prepare)
        @steps = prepare ? PREPARE : RUN
        @steps = [:open, *@steps] if @opening
        @step = 0
      end

      # @return [Symbol] :open, :prepare or :run
      def step = @steps[@step] || :run

      # The messages of one step are over.
      def stepped = @step += 1

      # @param result [PG::Result] of the present step
      def took(result)
        case result.result_status
        when PG::PGRES_FATAL_ERROR then @error ||= result
        when PG::PGRES_PIPELINE_ABORTED then result.clear
        else (step == :run) ? @result = result : result.clear
        end
      end

      # @return [PG::Result, nil] the server's error
      attr_reader :error

      # Its parameters could not be made a message, its connection is gone, it waited too long.
      # @param exception [Exception]
      def refuse(exception) = @refusal ||= exception

      # @return [Boolean] whether it is to be sent once more, without a name: it was not executed, since the Parse of another
      #   that it relied upon had failed, or since its plan is of before a change of the table
      def resend?
        return false if @resent || @key.nil? || @opening || !nameless?(@error)
        @error = @result = @sent_at = @key = nil
        @resent = true
      end

      # @return [Boolean] whether it may be cancelled for others, and sent again
      def displaceable? = @kind == :read || (@kind != :own && UNDONE_BY_CANCEL.match?(@sql.b)) # texts may be of any bytes

      # @return [Boolean] whether the server has given it up
      def cancelled? = !@error.nil? && @error.error_field(PG::PG_DIAG_SQLSTATE) == CANCELLED

      # It was cancelled for others, before it took effect: its fiber looks for a connection for it alone. There it may run twice as long.
      def displace
        @patience = PATIENCE_FACTOR * longest_time
        @error = @result = @sent_at = @connection = @check = nil
        @alone = true
        wake
      end

      # Its {Pipeline} ends before it has a place: it finds one by itself.
      def dispersed
        @gathered = false
        wake
      end

      # It has no place yet.
      def queued = @queued_at ||= Process.clock_gettime(Process::CLOCK_MONOTONIC)

      # @return [Float, nil] since when it waited for a place
      attr_reader :queued_at

      # @return [Fiber, nil] that waits for it
      def owner = @fiber

      # @return [Float, nil] since when it has a connection, where it has one alone
      def held_since = @sent_at

      # @return [Float] seconds that it waited for a place
      def queue_time = (@queued_at && @sent_at) ? @sent_at - @queued_at : 0.0

      # @param connection [PipelinedConnection] that it has for itself
      def granted(connection) = connection.push(self)

      # @return [Boolean] whether it is under way, and what it changes may come to be though nobody waits for that any more
      def in_doubt? = !@done && sent? && writes?

      # @return [Symbol] of its {Classification}; :own for one of ours
      attr_reader :kind

      # @return [Boolean] whether it may change data
      def writes? = @kind != :read

      # @return [String, nil] what the server says was done: nothing by what failed, or was prepared and then not sent
      def tag = (@result&.cmd_status unless @error)

      # @return [Boolean] whether what the server says was done may have changed what tables are made of
      def alters? = @kind != :read && ALTERING.match?(tag.to_s)

      # @return [Boolean] whether others may find what that was
      def defines? = alters? && !TEMPORARY.match?(sql.b) # texts may be of any bytes

      # @param sql [String] several statements
      # @return [Boolean] whether there may be a definition among them
      def self.defining?(sql) = DEFINING.match?(sql.b)

      # Its fiber goes on.
      def finish
        @done = true
        wake
      end

      # @param exception [Exception]
      def fail(exception)
        refuse(exception)
        finish
      end

      # Sleeps until it is woken, or not at all if it has been since it slept last.
      # @param seconds [Numeric, nil] at most
      # @return [Boolean] false after that
      def park(seconds = nil)
        @parked = true
        @woken || @loop.block(self, seconds) || @woken # who is woken when his time is up, and has not gone on yet, is told by that alone
      ensure
        @parked = @woken = false
      end

      # From any thread.
      def wake
        @woken = true
        @loop.unblock(self, @fiber) if @parked
      end

      # Nobody waits for it any more.
      def abandon
        @abandoned = true
        @fiber = nil
      end

      # @return [PG::Result]
      # @raise [PG::Error] what the server said, or why it was not asked
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

      def nameless?(error)
        case error.error_field(PG::PG_DIAG_SQLSTATE)
        when "26000" then true
        when "0A000" then error.error_field(PG::PG_DIAG_SOURCE_FUNCTION) == "RevalidateCachedQuery"
        end
      end

      # Made in the fiber that asks, which they may make wait, and not in the one that sends for all.
      def texts(params)
        raise TypeError, "params: #{params.inspect[0, 80]} is no Array: put the values of $1, $2 … in one" unless Array === params
        return params if params.all? { |value| PLAIN[value.class] }
        params.map { |value| PLAIN[value.class] ? value : "#{value}" } # standard:disable Style/RedundantInterpolation -- to_s may return anything
      end
    end
  end
end
