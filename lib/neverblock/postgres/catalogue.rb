# frozen_string_literal: true

require_relative "reach"
require_relative "revision"

module NeverBlock
  class Postgres
    # Knows from a database's catalogue which statements may leave session state although their text does not show it:
    # {Reach}. It is read before the first statement is shared, and cached.
    #
    #   catalogue = Catalogue.new(shareable: [], log: method(:say)) { |sql, session_defaults| run(sql) }    # PG::Result
    #   catalogue.doubt("select * from sales", classification, session_defaults)   # => nil, or a reason in words
    #   catalogue.outdate    # a definition has changed: the next statement waits until it was read again
    #   catalogue.expire     # another program may have changed one: it is read again in the background
    #
    # @api private
    class Catalogue
      include MonotonicClock

      # Settings for reading it: JIT compilation would take twenty times as long as the query, parallel workers don't
      # pay, and the application's statement_timeout must not end it.
      OPENING = {jit: "off", max_parallel_workers_per_gather: 0, statement_timeout: "60s"}
        .map { |name, value| "pg_catalog.set_config('#{name}', '#{value}', true)" }
        .join(", ").prepend("select ").freeze

      # Seconds from one background attempt to the next.
      RETRY_AFTER = 1

      UNKNOWN = "its dependencies are not known, since the catalogue was not read yet, or definitions have changed"
      NONE = {}.freeze

      # What was read. exact: false if `reach` may have things that are gone.
      Known = Struct.new(:revision, :reach, :exact)
      private_constant :RETRY_AFTER, :UNKNOWN, :NONE, :Known

      # @param shareable [Array<String>] functions that are known to be harmless
      # @param log [#call] gets lines for the log
      # @param later [#call] runs a block in the background
      # @yieldparam sql [String] a query of the catalogue
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
        @known = nil
        @fresh = @calm = false # calm: it is known that no statement is doubtful
        @judged = NONE
        @tried_at = -RETRY_AFTER
        @told = Set.new
      end

      # Nearly all calls return in the first lines. In a fiber of a loop it may wait until the catalogue was read.
      # @param sql [String]
      # @param classification [Classification]
      # @param session_defaults [SessionDefaults] of the connection that reads it
      # @return [String, nil] why the statement may leave session state
      # @raise [PG::Error, PoolTimeout]
      def doubt(sql, classification, session_defaults)
        return if @calm
        known = @judged[classification.fingerprint]
        return known || nil unless known.nil? # false: known to be harmless
        return unless SharingPolicy.kind(classification.kind).judged
        reach = @reach || wait(session_defaults)
        ask_meanwhile(session_defaults) unless @fresh
        tell(reach.doubt(sql, classification))
      end

      # @param fingerprint [String]
      # @return [Boolean] whether statements of this shape are known to be harmless
      def harmless?(fingerprint) = @calm || @judged[fingerprint] == false

      # The same for a statement of a lease. It doesn't wait: while the catalogue is unknown all are doubtful.
      # @param altering [Boolean] whether its transaction has changed definitions
      # @return [String, nil]
      def doubt_held(sql, classification, session_defaults, altering: false)
        return if @calm && !altering
        return unless SharingPolicy.kind(classification.kind).judged || classification.setting
        reach = @reach
        # The connection reads the catalogue when it is reset.
        return UNKNOWN if reach.nil? || altering || !(@fresh || Scheduler.current)
        ask_meanwhile(session_defaults) unless @fresh
        tell(reach.doubt(sql, classification))
      end

      # A definition has changed: statements wait until the catalogue was read again.
      # @return [void]
      def outdate
        @lock.synchronize do
          @version += 1
          @calm = false
          @judged = NONE
          @reach = nil
        end
      end

      # Another program may have changed a definition: the catalogue is read again in the background.
      # @return [void]
      def expire
        @lock.synchronize do
          @fresh = @calm = false
          @judged = NONE
        end
      end

      # @return [Boolean] whether a connection that is reset anyway should read it
      def wanted? = @reach.nil? || !@fresh

      # Reads what has changed in the catalogue since the last time. What is gone from it stays known until it is read
      # whole, in the background.
      # @yieldparam sql [String] a query of the catalogue
      # @yieldreturn [PG::Result]
      # @return [Reach]
      def refresh(&)
        version = @version
        @known = known = @known ? changed(@known, &) : whole(&)
        store(known.reach, version, fresh: known.exact)
      rescue PG::ServerError => error # such as its time limit
        store(Reach.unknown("the catalogue could not be read: #{error.message.strip}"), version, fresh: false)
      end

      private

      def whole
        revision = Revision.new(yield(Revision.query).values)
        Known.new(revision, Reach.new(yield(Dependencies.question(@shareable)).values), true)
      end

      def changed(before, &)
        revision = Revision.new(yield(Revision.query(before.revision.horizon)).values)
        same = revision.same?(before.revision)
        return before if same && before.exact
        return whole(&) if same || revision.wide?(before.revision)

        reach = reached(before.reach, revision, &)
        Known.new(revision, reach, before.exact && (reach.empty? || !revision.removed?(before.revision)))
      end

      # @return [Reach] the one that knows what has come to it since
      def reached(reach, revision)
        seeds = reach.seeds(revision.ids)
        since = revision.horizon
        return reach if seeds.empty? && yield(Dependencies.beginning(since)).getvalue(0, 0) == "f"
        reach.with(yield(Dependencies.question(@shareable, since:, seeds:)).values)
      end

      def store(reach, version, fresh: true)
        @lock.synchronize do
          # The snapshot was outdated meanwhile: callers that have waited for it may use it, later ones may not.
          return reach unless version == @version
          @fresh = fresh
          @reach = reach
          @judged = reach.judged if fresh
          @calm = fresh && reach.empty?
        end
        reach
      end

      # Concurrent callers wait for the same reading.
      def wait(session_defaults) = @flight.call(@version) { ask(session_defaults) }

      def ask(session_defaults) = refresh { |sql| @ask.call(sql, session_defaults) }

      def ask_meanwhile(session_defaults)
        return if now - @tried_at < RETRY_AFTER
        @tried_at = now
        @later.call do
          @flight.call(@version) { ask(session_defaults) }
        rescue => error # of any class: an adapter above has its own for an unreachable server
          @log.call("the catalogue, which tells which statements leave session state, could not be read again: " \
            "#{error.message}")
        end
      end

      # Logs each reason once.
      def tell(reason)
        return reason if reason.nil? || @told.size >= 1_000 || !@told.add?(reason)
        @log.call("a statement runs alone, and its connection is reset after it: #{reason}")
        reason
      end
    end
  end
end
