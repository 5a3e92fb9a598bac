# frozen_string_literal: true

require_relative "reach"

module NeverBlock
  class Postgres
    # What one database's catalogue says of statements that may leave something in their session, though their text does not: {Reach}.
    # It is asked for before the first statement is shared, and kept.
    #
    #   catalogue = Catalogue.new(shareable: [], log: method(:say)) { |sql| run(sql) }    # PG::Result
    #   catalogue.doubt("select * from sales", classification)          # => nil, or a reason in words
    #   catalogue.outdate                                        # a definition has changed: whoever comes next waits for a new answer
    #   catalogue.expire                                         # another program may have changed one: it is asked again meanwhile
    #
    # @api private
    class Catalogue
      # Compiled, the question would take twenty times as long; it is worth no processes; and a time limit for an application's statements is
      # none for it.
      OPENING = "select #{{jit: "off", max_parallel_workers_per_gather: 0, statement_timeout: "60s"}.map { |name, value| "pg_catalog.set_config('#{name}', '#{value}', true)" }.join(", ")}".freeze

      # Seconds from one attempt to ask again to the next.
      RETRY_AFTER = 1

      UNKNOWN = "what it reaches is not known, since the catalogue was not read yet, or definitions have changed"
      NONE = {}.freeze
      private_constant :RETRY_AFTER, :UNKNOWN, :NONE

      # @param shareable [Array<String>] functions that are known to be harmless
      # @param log [#call] gets lines for the log
      # @param later [#call] runs a block meanwhile
      # @yieldparam sql [String] a question
      # @yieldparam session_defaults [SessionDefaults]
      # @yieldreturn [PG::Result]
      def initialize(shareable:, log:, later:, &ask)
        @shareable = shareable
        @log = log
        @later = later
        @ask = ask
        @flight = Flight.new(share: StandardError)
        @lock = Thread::Mutex.new
        @version = 0
        @reach = nil
        @known = [] # a signature, and the answer that goes with it
        @fresh = @calm = false # calm: nothing is doubtful, and that is known
        @judged = NONE
        @tried_at = -RETRY_AFTER
        @told = Set.new
      end

      # The way of nearly all statements ends in the first lines. In a fiber of a loop it may wait for an answer.
      # @param sql [String]
      # @param classification [Classification]
      # @param session_defaults [SessionDefaults] by whose connections it is asked
      # @return [String, nil] why it may leave something in its session
      # @raise [PG::Error, PoolTimeout]
      def doubt(sql, classification, session_defaults)
        return if @calm
        known = @judged[classification.fingerprint]
        return known || nil unless known.nil? # false: it is not doubtful
        return unless SharingPolicy.kind(classification.kind).judged
        reach = @reach || wait(session_defaults)
        ask_meanwhile(session_defaults) unless @fresh
        tell(reach.doubt(sql, classification))
      end

      # @param fingerprint [String]
      # @return [Boolean] whether that is known of a statement, without a question
      def harmless?(fingerprint) = @calm || @judged[fingerprint] == false

      # The same for a statement that has a connection for itself, which waits for nothing: where nothing is known it is doubtful.
      # @param altering [Boolean] whether its transaction has changed definitions
      # @return [String, nil]
      def doubt_held(sql, classification, session_defaults, altering: false)
        return if @calm && !altering
        return unless SharingPolicy.kind(classification.kind).judged || classification.setting
        reach = @reach
        return UNKNOWN if reach.nil? || altering || !(@fresh || Scheduler.current) # its connection asks when it is given back
        ask_meanwhile(session_defaults) unless @fresh
        tell(reach.doubt(sql, classification))
      end

      # A definition has changed.
      # @return [void]
      def outdate
        @lock.synchronize do
          @version += 1
          @calm = false
          @judged = NONE
          @reach = nil
        end
      end

      # Another program may have changed one.
      # @return [void]
      def expire
        @lock.synchronize do
          @fresh = @calm = false
          @judged = NONE
        end
      end

      # @return [Boolean] whether it is to be asked by somebody who has a connection anyway
      def wanted? = @reach.nil? || !@fresh

      # An unchanged catalogue is not read whole again.
      # @yieldparam sql [String] a question
      # @yieldreturn [PG::Result]
      # @return [Reach]
      def refresh
        version = @version
        signature = yield(Dependencies.signature).getvalue(0, 0)
        before, reach = @known
        unless signature == before
          reach = Reach.new(yield(Dependencies.question(@shareable)).values)
          @known = [signature, reach]
        end
        store(reach, version)
      rescue PG::ServerError => error # for its time limit, say
        store(Reach.unknown("the catalogue could not be read: #{error.message.strip}"), version, fresh: false)
      end

      private

      def store(reach, version, fresh: true)
        @lock.synchronize do
          return reach unless version == @version # it holds for those who have waited for it, not for the next
          @fresh = fresh
          @reach = reach
          @judged = reach.judged if fresh
          @calm = fresh && reach.empty?
        end
        reach
      end

      # All who come meanwhile wait for the same answer.
      def wait(session_defaults) = @flight.call(@version) { ask(session_defaults) }

      def ask(session_defaults) = refresh { |sql| @ask.call(sql, session_defaults) }

      def ask_meanwhile(session_defaults)
        return if now - @tried_at < RETRY_AFTER
        @tried_at = now
        @later.call do
          @flight.call(@version) { ask(session_defaults) }
        rescue => error # an adapter above has errors of its own for a server that cannot be reached
          @log.call("the catalogue could not be asked again whether statements leave something in their session: #{error.message}")
        end
      end

      # Once for each reason.
      def tell(reason)
        return reason if reason.nil? || @told.size >= 1_000 || !@told.add?(reason)
        @log.call("a statement runs alone, and its connection is reset after it: #{reason}")
        reason
      end

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
