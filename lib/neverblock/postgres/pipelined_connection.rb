# frozen_string_literal: true

require_relative "pipelined_connection/ending"
require_relative "pipelined_connection/exchange"

module NeverBlock
  class Postgres
    # One connection to PostgreSQL, in pipeline mode: a FIFO of statements, each with a Sync of its own, so that an error stays
    # with its statement. A statement that has it by itself goes without that mode: {Exchange}.
    #
    # Its states ({#state}), and what leads from one to the next; test/integration/postgres_states_test.rb walks each arrow:
    #
    #   shared ──a statement that shares with none──> alone ──────────────────────────────> shared
    #   shared ──a lease──> leased ──given back as it was──────────────────────────────────> shared
    #   alone ──it may have left something──> upkeep ──it is as it was─────────────────────> shared
    #   leased ──it has left something──────> upkeep
    #   shared ──a minute since the last look, or what none waits for is left on it──> upkeep
    #   any ──the server, the network, a leak, an interruption within a message──> broken
    #
    # Stale, where another server or another configuration has taken the place of its own, it breaks off as soon as it is idle.
    #
    # It has no fiber. The first that adds to it in a turn of the loop lets the others of the turn add theirs and sends all at
    # once; one of those that wait reads for all, and hands that on when its own result has come.
    # @api private
    class PipelinedConnection
      include Ending
      include Exchange

      # Seconds without a statement after which it may have died without anybody's notice.
      PROBE_AFTER = 1.0

      # Between two statements of a transaction.
      IN_TRANSACTION = [PG::PQTRANS_INTRANS, PG::PQTRANS_INERROR].freeze
      private_constant :IN_TRANSACTION

      # Seconds without an answer after which the server is asked again to give up what runs.
      RECANCEL_AFTER = 0.5

      # @return [SessionDefaults]
      attr_accessor :session_defaults
      # @return [Holder, nil] what has it for itself
      attr_accessor :holder

      # @return [Boolean] whether a fiber has it for as long as it likes
      def leased? = !@holder.nil? && @holder.lease?

      # @return [Boolean] whether it is being looked at or restored
      def restoring? = Holder::UPKEEP.equal?(@holder)

      # @return [Boolean] whether a shared statement has it for itself
      attr_accessor :lent

      # @return [Boolean] whether it takes no more shared statements until somebody has had it for itself
      attr_accessor :draining
      # @return [Object, nil] the scheduler whose fibers are served
      attr_accessor :loop
      # @return [Hash{String=>String}, nil] what it kept when it was new: see {Audit}
      attr_accessor :baseline
      # @return [Hash{String=>String}, nil] what the server gave it by itself: see {ServerDefaults}
      attr_accessor :server_defaults
      # @return [Float] when it was last looked for more
      attr_accessor :audited_at
      # @return [Boolean] whether it was used since
      def used_unseen? = heard > audited_at
      # @return [Float] when its last statement was answered, or began
      def heard = @wire.head_since
      # @return [Age]
      attr_accessor :age
      # @return [Integer] statements that may be on it
      attr_reader :capacity
      # @return [Server, nil] that it leads to
      attr_reader :server
      # @return [Integer] which of the clusters, one after the other, that is of
      attr_accessor :cluster
      # @return [Boolean] whether another is to take its place - its server has changed, or its pooler keeps too much for it: it ends as
      #   soon as nothing uses it
      def stale = @stale || @wire.worn?
      attr_writer :stale
      # @return [Exception, nil] what ended it
      attr_reader :broken
      # @return [Boolean, nil] whether the server, or the network, ended it while a statement was under way
      attr_reader :ended_by_server
      # @return [Float] seconds for which the statement that runs is known to have; after a rest there is none
      def running = @sent.empty? ? 0.0 : heard_since - @wire.head_since

      # @param pg [PG::Connection] connected
      # @param session_defaults [SessionDefaults] that has been applied to it
      # @param owner [#finished, #lost] who is told of what ends
      # @param capacity [Integer] statements that may be on it
      # @param names [Boolean] whether the session keeps statements' names
      # @param deallocates [Boolean] as {Wire}'s
      # @param server [Server, nil]
      def initialize(pg, session_defaults, owner, capacity: 64, names: true, deallocates: true, server: nil)
        @pg = pg
        @wire = Wire.new(pg, names:, deallocates:)
        @io = @wire.io
        @sent = @wire.sent
        @outbox = []
        @reported = Reported.new(pg)
        @session_defaults = session_defaults
        @owner = owner
        @capacity = capacity
        @server = server
        @stale = @doubted = @relieving = @asking = @put_off = @draining = @flushing = @lent = false
        @inquiry = @given_up = @reader = @suspect = @altering = @direct = nil
      end

      # @return [PG::Connection]
      attr_reader :pg

      # @return [Integer] how many statements are on it
      def depth = @sent.size + @outbox.size

      # @return [Boolean]
      def idle? = @sent.empty? && @outbox.empty? && @direct.nil?

      # @param statement [Statement]
      def push(statement)
        statement.connection = self
        @outbox << statement
      end

      # One of those that wait reads on, if nobody does. It may be about to sleep, on another thread even: it is told all the same.
      # @param leaving [Statement, nil] not this one's fiber
      def hand_over(leaving = nil)
        return if @reader
        @sent.each do |statement|
          waiting = statement.awaited
          return waiting.wake unless waiting.abandoned? || waiting.equal?(leaving)
        end
        @inquiry&.held&.each { |statement| return statement.wake unless statement.abandoned? || statement.equal?(leaving) }
      end

      # @return [Boolean] whether nobody waits for any of its statements
      def deserted? = @outbox.empty? && (@direct.nil? || @direct.abandoned?) && @sent.all? { |statement| statement.awaited.abandoned? } && (@inquiry.nil? || @inquiry.held.all?(&:abandoned?))

      # Those that have their place go on by themselves.
      def wake_all = @outbox.each(&:wake)

      # @param statement [Statement] that was pushed and is not sent
      # @return [Boolean]
      def withdraw(statement) = !@outbox.delete(statement).nil?

      # Waits until the statement is done; sends and reads meanwhile.
      # @param flush_now [Boolean] whether it is sent at once: no other fiber will add to it now
      def complete(statement, flush_now: true)
        until statement.done? || statement.connection != self
          return statement.fail(OutcomeUnknown.of(@broken)) if @broken # interrupted, it may be in no list any more
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

      # Sends what is in the outbox. Half a message cannot be taken back: who is interrupted here takes the connection with him.
      def flush
        alive?
        @wire.pipeline unless @broken
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

      # One that has not been used for a while is looked at, so that nothing is sent where nobody is.
      # @param look [Boolean] whether it is looked at even if it has just been used
      # @return [Boolean] false: it is broken off now
      def alive?(look: @doubted)
        return false if @broken
        return true if (now - @wire.head_since < PROBE_AFTER && !look) || !@sent.empty?
        @doubted = false
        @wire.look
        true
      rescue PG::Error, SystemCallError, IOError => error
        break_off(error)
        false
      end

      # Another connection to the server was lost, and this one may have been with it.
      def doubt = @doubted = true

      # @param seconds [Numeric, nil] at most
      # @return [Boolean] whether something came
      def read_once(seconds = nil)
        return false unless @io.wait_readable(seconds)
        receive
        true
      end

      # Asks the server to give up what it has been sent, and reads until it has, while nobody else uses it. A request concerns
      # what runs when it arrives: one that comes between two statements is in vain, and one is needed for each that is slow.
      # @return [void]
      def give_up
        until idle? || @broken
          @pg.cancel
          nil while !idle? && !@broken && read_once(RECANCEL_AFTER)
        end
      end

      # @return [Statement, nil] what runs
      def head = @sent.first

      # @return [Boolean] whether a fiber waits for another statement than the one that runs
      def crowded?
        first = head&.awaited
        [@sent, @outbox].any? { |list| list.any? { |statement| !statement.awaited.equal?(first) && !statement.awaited.abandoned? } }
      end

      # @return [Boolean] whether statements on it are cancelled for others: until it is idle, each of them may have met with that
      attr_accessor :relieving

      # @return [Statement, nil] the last that the server was asked to give up, for others
      attr_accessor :given_up

      # @return [Boolean] whether that request is on its way, which what is sent now may meet with
      attr_accessor :asking

      # @return [Boolean] whether it has become idle meanwhile: others get it when the request has arrived
      attr_accessor :put_off

      # @param seconds [Float]
      # @return [Boolean] whether one that has it for a transaction has asked nothing for so long
      def rests?(seconds)
        leased? && @broken.nil? && idle? && now - @wire.head_since > seconds && IN_TRANSACTION.include?(transaction_status)
      end

      # @return [Boolean] whether the server works on what its holder has sent, or has answers that were not read
      def runs? = transaction_status == PG::PQTRANS_ACTIVE

      # @return [Boolean] whether it is out of pipeline mode, so that results may be left to read
      def plain? = @broken.nil? && @wire.plain?

      # @return [Integer] PG::PQTRANS_…; only while one has it for itself
      def transaction_status = @broken ? PG::PQTRANS_UNKNOWN : @pg.transaction_status

      # @return [Reported] settings
      attr_reader :reported

      # @return [Inquiry, nil] that is under way
      attr_accessor :inquiry

      # @return [Boolean] whether its server's role has changed
      def promoted? = !@server.nil? && @server.standby != (@pg.parameter_status("in_hot_standby") == "on")

      # @return [String, nil] the statement that may have left something in its session, until that is undone
      attr_accessor :suspect

      # @return [Names] of the statements that it has parsed
      def names = @wire.names

      # @return [:lasting, :temporary, nil] whether its transaction has changed what tables are made of, and for whom
      attr_accessor :altering

      # User's code has asked for results in single rows, or in chunks.
      # @return [void]
      def partial!
        @wire.partial = true
      end

      # Leaves pipeline mode, for what does not go with it.
      # @param notices [Proc, nil] what gets those of all that is done then
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
      def inspect = "#<NeverBlock::Postgres::PipelinedConnection #{state}, #{depth} statements>"

      private

      # Those that run before the loop next looks at the kernel may have something to send too: a timer that is due ends this wait,
      # since behind all that is runnable there may be thousands. What is unwound here is not sent, and another one sends.
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
        names.doubt(statement.sent_at) if statement.doubt
      end

      def suspect_of(statement)
        @suspect ||= statement.sql
        @stale = true if Lease::SURVIVES_DISCARD.match?(statement.doubt) # no reset undoes it
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

      # An exception from outside may come anywhere (Timeout, Thread#raise, Thread#kill): an answer that was taken and not booked
      # would be taken for the next statement's.
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

      # @return [Float] what has come was not there before this time
      def heard_since = @loop ? @loop.heard_since : now

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
