# frozen_string_literal: true

require_relative "pipelined_connection/direct"
require_relative "pipelined_connection/ending"
require_relative "pipelined_connection/exchange"

module NeverBlock
  class Postgres
    # One connection to PostgreSQL in pipeline mode: a FIFO of statements, each with its own Sync, so that an error
    # stays with its statement. A statement that is alone on the connection goes without pipeline mode: {Exchange}.
    #
    # Its states ({#state}), and what leads from one to the next (test/integration/postgres/states_test.rb):
    #
    #   shared ──exclusive statement──> alone ─────────────────────────────────────────────> shared
    #   shared ──lease──> leased ──given back without session state────────────────────────> shared
    #   alone ──may have left session state──> upkeep ──reset──────────────────────────────> shared
    #   leased ──has left session state──────> upkeep
    #   shared ──a minute since the last audit, or only abandoned statements on it──> upkeep
    #   any ──the server, the network, a leak, an interrupt within a message──> broken
    #
    # A connection is stale if its server or configuration was replaced. A stale one is closed as soon as it is idle.
    #
    # It has no fiber of its own. The first fiber that adds a statement in a turn of the loop lets the others of the
    # turn add theirs, and sends all at once. One of the waiting fibers reads for all, and hands the reading on when its
    # own result has arrived.
    # @api private
    class PipelinedConnection
      include Direct
      include Ending
      include Exchange
      include MonotonicClock

      # Seconds without a statement after which the socket is probed before the next: the connection may have died.
      PROBE_AFTER = 1.0

      # Transaction statuses between two statements of a transaction.
      IN_TRANSACTION = [PG::PQTRANS_INTRANS, PG::PQTRANS_INERROR].freeze
      private_constant :IN_TRANSACTION

      # Seconds without a result after which the request to cancel the running statement is repeated.
      RECANCEL_AFTER = 0.5

      # @return [SessionDefaults]
      attr_accessor :session_defaults
      # @return [Holder, nil] the exclusive user
      attr_accessor :holder

      # @return [Boolean] whether a lease holds it
      def leased? = !@holder.nil? && @holder.lease?

      # @return [Boolean] whether it is being audited or reset
      def restoring? = Holder::UPKEEP.equal?(@holder)

      # @return [Boolean] whether it is lent to one shared statement
      attr_accessor :lent

      # @return [Boolean] whether it takes no more statements until it has been idle
      attr_accessor :draining
      # @return [Object, nil] the scheduler whose fibers use it
      attr_accessor :loop
      # @return [Hash{String=>String}, nil] the session state when it was new: see {Audit}
      attr_accessor :baseline
      # @return [Hash{String=>String}, nil] the settings that the server gave it: see {ServerDefaults}
      attr_accessor :server_defaults
      # @return [Float] when it was last audited, on the monotonic clock
      attr_accessor :audited_at
      # @return [Boolean] whether it was used since the last audit
      def used_unseen? = heard > audited_at
      # @return [Float] when its last statement began or ended, on the monotonic clock
      def heard = @wire.head_since
      # @return [Age]
      attr_accessor :age
      # @return [Integer] maximum number of statements on it
      attr_reader :capacity
      # @return [Server, nil] the server that it has reached
      attr_reader :server
      # @return [Integer] number of the server's cluster, counted by {ServerHistory}
      attr_accessor :cluster
      # @return [Boolean] whether it must be replaced, since its server has changed or its pooler has too many prepared
      #   statements for it. It is closed as soon as it is idle
      def stale = @stale || @wire.worn?
      attr_writer :stale
      # @return [Exception, nil] the error that ended it
      attr_reader :broken
      # @return [Boolean, nil] whether the server or the network ended it while a statement was in flight
      attr_reader :ended_by_server
      # @return [Float] seconds for which the running statement has run at least; 0.0 without one
      def running = (@sent.empty? && @read.nil?) ? 0.0 : heard_since - @wire.head_since

      # @param pg [PG::Connection] connected
      # @param session_defaults [SessionDefaults] already applied to it
      # @param owner [#finished, #exchanged, #lost] gets the callbacks
      # @param capacity [Integer] maximum number of statements on it
      # @param names [Boolean] whether named prepared statements last in its session
      # @param deallocates [Boolean] as {Wire}'s
      # @param server [Server, nil]
      # @param compares [Boolean] as `always:` of {Reported}
      def initialize(pg, session_defaults, owner, capacity: 64, names: true, deallocates: true, server: nil,
        compares: true)
        @pg = pg
        @wire = Wire.new(pg, names:, deallocates:)
        @io = @wire.io
        @sent = @wire.sent
        @outbox = []
        @reported = Reported.new(pg, always: compares)
        @session_defaults = session_defaults
        @owner = owner
        @capacity = capacity
        @server = server
        @stale = @probe_next = @relieving = @asking = @put_off = @draining = @flushing = @lent = false
        @inside = 0
        @inquiry = @given_up = @reader = @suspect = @altering = @direct = @read = nil
      end

      # @return [PG::Connection]
      attr_reader :pg

      # @return [Integer] number of statements on it, sent or not
      def depth = @sent.size + @outbox.size + (@read ? 1 : 0)

      # @return [Boolean]
      def idle? = @read.nil? && @sent.empty? && @outbox.empty? && @direct.nil?

      # @param statement [Statement]
      def push(statement)
        statement.connection = self
        @outbox << statement
      end

      # If no fiber reads, wakes a waiting one to do it. It may be just about to sleep, even on another thread; the
      # wake-up is not lost.
      # @param leaving [Statement, nil] the one whose fiber stops reading
      def hand_over(leaving = nil)
        return if @reader
        @sent.each do |statement|
          waiting = statement.awaited
          return waiting.wake unless waiting.abandoned? || waiting.equal?(leaving)
        end
        @inquiry&.held&.each do |statement|
          return statement.wake unless statement.abandoned? || statement.equal?(leaving)
        end
      end

      # @return [Boolean] whether no fiber waits for any of its statements
      def deserted?
        @read.nil? && @outbox.empty? && (@direct.nil? || @direct.abandoned?) &&
          @sent.all? { |statement| statement.awaited.abandoned? } && (@inquiry.nil? || @inquiry.held.all?(&:abandoned?))
      end

      # Wakes the fibers of unsent statements, which then send them.
      def wake_all = @outbox.each(&:wake)

      # @param statement [Statement] one that was pushed
      # @return [Boolean] whether it was taken out before it was sent
      def withdraw(statement) = !@outbox.delete(statement).nil?

      # Waits until the statement is done. It sends and reads meanwhile.
      # @param flush_now [Boolean] whether to send at once, since no other fiber is about to add a statement
      def complete(statement, flush_now: true)
        until statement.done? || statement.connection != self
          # After an interrupt it may be in no list any more.
          return statement.fail(OutcomeUnknown.of(@broken)) if @broken
          if !@outbox.empty? && !@flushing
            name = direct_name(statement) if @holder
            next exchange(statement, name) if name
            (flush_now || @holder) ? flush : flush_soon(statement)
          elsif @reader
            statement.park
          else
            read(statement)
          end
        end
      ensure
        hand_over(statement)
      end

      # Sends the outbox. A partial write can't be undone, so an interrupt here closes the connection.
      def flush
        alive?
        inside_libpq { @wire.pipeline } unless @broken
        until @outbox.empty? || @broken
          @wire.tidy
          transmit(statement = @outbox.first) { @outbox.shift }
          transmit(statement.check) if statement.check
        end
        @wire.flush { receive unless @reader } unless @broken
        whole = true
      rescue PG::Error, SystemCallError, IOError => error
        break_off(error)
      ensure
        interrupted unless whole
      end

      # Probes the socket if the connection was not used for a while, so that no statement is sent to a dead server.
      # While a fiber waits inside of libpq it is not: the fiber would wait on for what the probe has read.
      # @param look [Boolean] whether to probe even if it has just been used
      # @param time [Float] now, on the monotonic clock
      # @return [Boolean] false: it is broken now
      def alive?(look: @probe_next, time: now)
        return false if @broken
        return true if (time - @wire.head_since < PROBE_AFTER && !look) || !@sent.empty? || @inside > 0
        @probe_next = false
        @wire.look
        true
      rescue PG::Error, SystemCallError, IOError => error
        break_off(error)
        false
      end

      # Another connection to the server was lost: probes this one before its next statement.
      def probe_next = @probe_next = true

      # @param seconds [Numeric, nil] the longest wait; nil: no limit
      # @return [Boolean] whether data arrived
      def read_once(seconds = nil)
        return false unless @io.wait_readable(seconds)
        receive
        true
      end

      # Cancels all statements on the connection, and reads until they have ended; no other fiber may use it. A request
      # to cancel hits the statement that runs when it arrives. One that arrives between two statements has no effect,
      # so it is repeated.
      # @return [void]
      def give_up
        until idle? || @broken
          @pg.cancel
          nil while !idle? && !@broken && read_once(RECANCEL_AFTER)
        end
      end

      # @return [Statement, nil] the running one
      def head = @sent.first || (become_statement if @read&.sent)

      # @return [Boolean] whether a fiber waits for a statement behind the running one
      def crowded?
        first = head&.awaited
        [@sent, @outbox].any? do |list|
          list.any? { |statement| !statement.awaited.equal?(first) && !statement.awaited.abandoned? }
        end
      end

      # @return [Boolean] whether {Relief} cancels statements on it: until it is idle, a request may hit any of them
      attr_accessor :relieving

      # @return [Statement, nil] the last one that {Relief} asked the server to cancel
      attr_accessor :given_up

      # @return [Boolean] whether a request to cancel is on its way, which may hit a statement that is sent now
      attr_accessor :asking

      # @return [Boolean] whether it became idle meanwhile: it is given to others only when the request has arrived
      attr_accessor :put_off

      # @param seconds [Float]
      # @return [Boolean] whether a lease holds it for an open transaction, and has sent nothing for so long
      def rests?(seconds)
        leased? && @broken.nil? && idle? && now - @wire.head_since > seconds &&
          IN_TRANSACTION.include?(transaction_status)
      end

      # @return [Boolean] whether the server works on a statement of its holder, or results are unread
      def runs? = transaction_status == PG::PQTRANS_ACTIVE

      # @return [Boolean] whether it is out of pipeline mode, so that results may be unread
      def plain? = @broken.nil? && @wire.plain?

      # @return [Integer] PG::PQTRANS_…; meaningful only while it is held or idle
      def transaction_status = @broken ? PG::PQTRANS_UNKNOWN : @pg.transaction_status

      # @return [Reported] settings
      attr_reader :reported

      # @return [Inquiry, nil] the one in flight
      attr_accessor :inquiry

      # @return [Boolean] whether its server was promoted, or demoted
      def promoted? = !@server.nil? && @server.standby != (@pg.parameter_status("in_hot_standby") == "on")

      # @return [String, nil] the statement that may have left session state, until that is reset
      attr_accessor :suspect

      # @return [Names] of its prepared statements
      def names = @wire.names

      # @return [:lasting, :temporary, nil] whether its transaction has changed a definition; temporary: for its session
      attr_accessor :altering

      # The user has asked for results in single rows, or in chunks.
      # @return [void]
      def partial!
        @wire.partial = true
      end

      # Leaves pipeline mode, for calls that it does not allow.
      # @param notices [Proc, nil] gets the notices from then on
      # @return [PG::Connection]
      def plain(notices = nil) = @wire.plain(notices)

      # @return [Integer]
      def pid = @pg.backend_pid

      # @return [:shared, :alone, :leased, :upkeep, :broken]
      def state
        return :broken if @broken
        return :shared if @holder.nil?
        return :upkeep if restoring?
        leased? ? :leased : :alone
      end

      # @return [String]
      def inspect
        "#<NeverBlock::Postgres::PipelinedConnection #{state}, #{depth} statements, #{@outbox.size} of them unsent>"
      end

      private

      # Lets the fibers that run before the loop's next look at the kernel add their statements. A timer that is due at
      # once ends the wait: a fiber at the end of the run queue could be behind thousands. If this fiber is unwound, its
      # statement is not sent, and another fiber sends.
      def flush_soon(statement)
        @flushing = true
        Scheduler.current&.kernel_sleep(0.0)
        waits = true
      ensure
        @flushing = false
        if waits
          flush
        else
          @outbox.delete(statement)
          @outbox.first&.wake
        end
      end

      def transmit(statement, &)
        suspect_of(statement) if statement.doubt
        @wire.transmit(statement, (OtherCluster.new if statement.cluster && statement.cluster != @cluster), &)
        names.distrust(statement.sent_at) if statement.doubt
      end

      def suspect_of(statement)
        @suspect ||= statement.sql
        @stale = true if Lease::SURVIVES_DISCARD.match?(statement.doubt) # no reset undoes that
      end

      def read(statement)
        @reader = statement
        read_once until statement.done? || statement.connection != self
      rescue IOError, SystemCallError => error
        break_off(error)
      ensure
        @reader = nil
        hand_over(statement)
      end

      # Breaks off if an exception from outside (Timeout, Thread#raise, Thread#kill) interrupts it: a result that was
      # read and not booked would be taken for the next statement's.
      def receive
        finished = []
        @wire.receive(heard_since, finished)
        @direct = nil if @sent.empty?
        @owner.finished(self, finished) unless finished.empty?
        whole = true
      rescue PG::Error, SystemCallError, IOError => error
        break_off(error)
      ensure
        unless whole
          interrupted
          finished.map(&:awaited).each { |statement| statement.fail(OutcomeUnknown.of(@broken)) unless statement.done? }
        end
      end

      # @return [Float] when the loop last looked at the kernel: data read now had not arrived before
      def heard_since = @loop ? @loop.heard_since : now
    end
  end
end
