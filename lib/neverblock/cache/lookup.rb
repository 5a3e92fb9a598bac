# frozen_string_literal: true

module NeverBlock
  class Cache
    # The way of one request through the cache: an entry, a fetch that is under way or begins, or the app itself.
    #
    #   Lookup.new(rooms, env, request, extras).call    # => [status, headers, body]
    # @api private
    class Lookup
      # What all requests share.
      Rooms = Struct.new(:app, :store, :settings, :fetch_env, :hints, :fills, :released, :leases, :outcomes)

      # An entry may have been evicted, or be of another variant, when a request comes back to it.
      ATTEMPTS = 4
      private_constant :ATTEMPTS

      # @param rooms [Rooms]
      # @param env [Hash]
      # @param request [RequestPolicy] with a key
      # @param extras [Array] from {FetchEnv#extras}
      def initialize(rooms, env, request, extras)
        @rooms = rooms
        @env = env
        @request = request
        @key = request.key
        @extras = rooms.settings.with_revision(extras)
        @mine = @plan = @interim = nil
        @failed = nil # the fetch for which the request has waited in vain
        @forward = :uri_miss
      end

      # @return [Array(Integer, Hash, #each)]
      def call
        ATTEMPTS.times do
          entry = self.entry
          response = (serve(entry) if entry) || go_on(entry)
          return response if Array === response
          return pass(limited: true) if response == :pass
        end
        pass(limited: true)
      end

      # @return [Entry, nil] the one that is stored for a request like this
      def entry
        entries = @rooms.store.read(@key, &@rooms.settings.wanted)
        entry = entries.find { |one| like?(one) }
        @forward = :vary_miss if entry.nil? && !entries.empty?
        # Otherwise a few requests with unusual headers would drive out the variant that all others use.
        @rooms.store.touch(@key, entry) if entry && entries.size > 1 && @rooms.store.respond_to?(:touch)
        entry
      end

      # @param entry [Entry]
      # @return [Boolean] whether it can be used without the app
      def fresh?(entry) = fresh_enough?(@rooms.settings.freshness(entry), wall_clock)

      # Requests that differ in what responses of this URL depended on do not wait for each other.
      # @return [Array(String, Array)]
      def fill_key
        names = @rooms.hints.headers(@key)
        values = names.empty? ? @extras : [*Vary.new(names.join(",")).values(@env), *@extras]
        [@key, values]
      end

      # @return [String, nil] a state of the request that a fetch would not have: {OuterState}
      def state = OuterState.name(@rooms.settings.allow_state)

      private

      # @return [Boolean] whether the entry's response would be this request's too
      def like?(entry)
        vary = @rooms.settings.vary(entry)
        entry.vary == (vary.empty? ? @extras : [*vary.values(@env), *@extras])
      end

      # @return [Array, nil] nil: it can't be used without the app
      def serve(entry)
        now = wall_clock
        freshness = @rooms.settings.freshness(entry)
        if fresh_enough?(freshness, now)
          ttl = freshness.ttl(now)
          count((ttl > 0) ? :hit : :stale)
          return respond(entry, freshness, now, CacheStatus.new(hit: true, ttl:))
        end
        @forward = freshness.fresh?(now) ? :request : :stale
        return if @request.no_cache? || !freshness.stale_while_revalidate?(now)
        count(:stale) # first: the fetch, which may be in another thread, reads all of the request's env
        refresh(entry)
        respond(entry, freshness, now, CacheStatus.new(hit: true, ttl: freshness.ttl(now)))
      end

      # RFC 9111 §4.2, §5.2.1.
      def fresh_enough?(freshness, now)
        return false if @request.no_cache? || freshness.must_validate?
        ttl = freshness.ttl(now)
        return stale_enough?(freshness, ttl) unless freshness.fresh?(now)
        (@request.max_age.nil? || freshness.age(now) <= @request.max_age) && ttl >= @request.min_fresh.to_i
      end

      # The client accepts a stale response, and the app does not forbid one.
      def stale_enough?(freshness, ttl)
        most = @request.max_stale
        !most.nil? && freshness.stale_allowed? && -ttl <= most
      end

      def respond(entry, freshness, now, status, body: nil)
        status.key = @key if @rooms.settings.details
        status = nil unless @rooms.settings.cache_status
        Responses.of(entry, @env, age: freshness.age(now).floor, status:, body:)
      end

      # @return [Array, Symbol] the response; or :pass, :retry, :again
      def go_on(entry)
        return gateway_timeout if @request.only_if_cached?
        return pass if (@state = state)
        return pass if @env["REQUEST_METHOD"] != "GET" || @env.key?("HTTP_RANGE") || !@request.plain?
        return pass if entry.nil? && @rooms.hints.uncollapsible?(@key)
        follow(entry)
      end

      # RFC 9111 §5.2.1.7.
      def gateway_timeout
        count(:miss)
        [504, {"content-length" => "0"}, []]
      end

      def follow(entry)
        @mine = nil
        fill, begun = find
        reader = fill.join or return :pass
        return :again if begun && !begin_unless_stored(fill, entry, reader) # the ensure lets the others ask again too
        started = true
        response, stays = outcome(fill, reader, begun)
        @failed = fill if response == :retry
        response
      ensure
        note_upstream if begun
        give_up(@mine) if @mine && !started # an exception from outside may come anywhere
        fill.leave(reader) if reader && !stays
      end

      # The fetch has an env of its own. The line of the request that began the fetch tells of the upstream.
      def note_upstream
        note = @plan&.upstream
        @env[Fetch::UPSTREAM] = note if note
      end

      # Another fetch may have ended between the look into the store and that for a fetch under way; or the entry was
      # purged, and is not to be validated.
      # @return [Boolean] whether the fetch has begun
      def begin_unless_stored(fill, entry, reader = nil)
        stored = self.entry
        return false if newer?(stored, entry)
        # On threads another request may have joined before: what is for one client alone goes to that one.
        fill.interim = @interim = (Fill::Interim.for(@env) if reader&.leads?)
        begin_fetch(fill, stored)
        true
      end

      def newer?(stored, entry) = stored && (entry.nil? || stored.responded_at > entry.responded_at)

      # A fetch that was not begun: no request may wait for it.
      def give_up(fill)
        @rooms.fills.remove(fill)
        fill.dissolve unless fill.decided?
      end

      # Without collapsing each request has a fetch of its own. After a failed one all that waited for it have the same.
      def find
        key = @rooms.settings.collapse ? fill_key : [@key, Object.new]
        generation = @rooms.store.generation(@key)
        return second(key, generation) if @failed
        fill, begun = @rooms.fills.find(key) { new_fill(key, generation) }
        return [fill, begun] if begun || fill.generation == generation
        @rooms.fills.remove(fill) # the URL was purged since
        @rooms.fills.find(key) { new_fill(key, generation) }
      end

      def second(key, generation)
        fill, begun = @failed.successor { new_fill(key, generation) }
        @rooms.fills.put(fill) if begun
        [fill, begun]
      end

      def new_fill(key, generation)
        settings = @rooms.settings
        @mine = Fill.new(key:, memory: settings.memory, file: settings.spool, window: settings.window,
          max_waiting: settings.max_waiting, again: !@failed.nil?, generation:, places: @rooms.fills.places)
      end

      # In the background, with the stored response while it lasts.
      def refresh(entry)
        key = fill_key
        return if @rooms.fills.any?(key) || state
        @mine = nil
        fill, begun = find
        started = begun && fill.unattended && begin_unless_stored(fill, entry)
      ensure
        give_up(@mine) if @mine && !started
      end

      def begin_fetch(fill, entry)
        names = @rooms.hints.headers(@key)
        @plan = plan = Fetch::Plan.new(key: @key, env: @env, extras: @extras, names:, stale: entry, interim: @interim)
        fetch = Fetch.new(app: @rooms.app, store: @rooms.store, settings: @rooms.settings,
          fetch_env: @rooms.fetch_env, hints: @rooms.hints, fill:, plan:)
        Background.run(fill) do
          leased(fill, entry) { |lease| fetch.call(lease) }
        ensure
          @rooms.fills.remove(fill)
        end
      end

      # Where several hosts share the store, one of them fetches.
      def leased(fill, entry, &)
        return yield unless @rooms.leases && @rooms.settings.collapse
        @rooms.leases.call(fill, -> { stored_since?(entry) }, &)
      end

      def stored_since?(entry)
        @rooms.store.look_again(@key)
        newer?(self.entry, entry)
      end

      # @return [Array(Object, Boolean)] the response, or how to go on; whether the reader is still needed
      def outcome(fill, reader, begun)
        @interim&.deliver if begun
        case decision = fill.decision(reader, (@rooms.settings.wait unless begun))
        when :share then shared(fill, reader, begun)
        when :serve then [like?(fill.entry) ? served(fill, begun) : :again, false]
        when :give then given(fill, reader)
        when :fail then failed(fill)
        when nil then [:pass, false]
        else [decision, false]
        end
      end

      def shared(fill, reader, begun)
        return [:again, false] unless like?(fill.entry)
        count(begun ? :miss : :collapsed)
        body = Responses::Following.new(fill, reader)
        [from(fill, begun, body:, stored: (true unless fill.reason)), true]
      end

      def served(fill, begun)
        again = begun ? :revalidated : :collapsed
        count((fill.reason == :stale) ? :stale : again)
        from(fill, begun)
      end

      def from(fill, begun, body: nil, stored: nil)
        now = wall_clock
        status = CacheStatus.new(fwd: @forward, fwd_status: fill.entry.status, stored:, collapsed: (true unless begun))
        respond(fill.entry, @rooms.settings.freshness(fill.entry), now, status, body:)
      end

      def given(fill, reader)
        count(:miss)
        code, headers, body = fill.response
        headers = headers.dup
        if @rooms.settings.cache_status
          CacheStatus.new(fwd: @forward, fwd_status: code, detail: detail(fill.reason)).append(headers)
        end
        return [[code, headers, body], false] if body && fill.take
        [[code, headers, Responses::Following.new(fill, reader)], true]
      end

      def detail(reason) = (reason.to_s if @rooms.settings.details)

      def failed(fill)
        count(:failed)
        raise copy(fill.error)
      end

      # Each that raises has an exception of its own.
      def copy(error)
        return error.dup if StandardError === error
        ClosedError.new("the fetch of this response has ended: #{error.message} (#{error.class})")
      end

      # The app's own response to this request, and to no other.
      def pass(limited: false)
        count(:pass)
        code, headers, body = limited ? @rooms.released.acquire(@key) { @rooms.app.call(@env) } : @rooms.app.call(@env)
        headers = headers.dup
        @rooms.hints.clear(@key) if @rooms.hints.uncollapsible?(@key) && for_all?(code.to_i, headers)
        if @rooms.settings.cache_status
          why = @state ? "state #{@state}" : @rooms.hints.reason(@key)
          CacheStatus.new(fwd: @forward, fwd_status: code.to_i, detail: (detail(why) if why)).append(headers)
        end
        [code, headers, body]
      end

      def count(outcome) = @rooms.outcomes.count(@env, outcome)

      def for_all?(code, headers) = !EnvGuard.doubtful?(@env) && @rooms.settings.refusal(code, headers, @env).nil?

      def wall_clock = Clock.wall
    end
  end
end
