# frozen_string_literal: true

require_relative "env_guard"

module NeverBlock
  class Cache
    # Calls the app for a {Fill}, in a task of the cache, and decides at the response's headers what becomes of the
    # requests that wait for it. The body is read and closed where the app was called.
    #
    #   Fetch.new(app:, store:, settings:, fetch_env:, hints:, fill:, plan:).call
    # @api private
    class Fetch
      # What is fetched: the `key` of the URL; the `env` of the request that began it; its `extras`; the `names` of
      # dropped headers that the app gets nevertheless; the `stale` entry that is validated; the way of `interim`
      # responses to that request. In the end also the note of the `upstream` that a reverse proxy has left for logs.
      Plan = Struct.new(:key, :env, :extras, :names, :stale, :interim, :upstream)

      # Statuses of an app that is ill.
      ILL = [500, 502, 503, 504].freeze
      # Calls of the app for one fetch: one more with headers that the response of the first varies on, and one more
      # without conditions, if a 304 was of another response.
      MOST_CALLS = 3
      # In Rack's env: what a reverse proxy notes for logs.
      UPSTREAM = "neverblock.upstream"
      private_constant :ILL, :MOST_CALLS

      # @param app [#call]
      # @param store [MemoryStore] or another store
      # @param settings [Settings]
      # @param fetch_env [FetchEnv]
      # @param hints [Hints]
      # @param fill [Fill]
      # @param plan [Plan]
      def initialize(app:, store:, settings:, fetch_env:, hints:, fill:, plan:)
        @app = app
        @store = store
        @settings = settings
        @fetch_env = fetch_env
        @hints = hints
        @fill = fill
        @plan = plan
        @stale = plan.stale
        @names = plan.names
        @process = Process.pid
      end

      # @param lease [Leases::Lease, nil] for which other hosts wait
      # @return [void]
      def call(lease = nil)
        @lease = lease
        MOST_CALLS.times.any? { attempt } || @fill.refuse
      rescue Exception => error # standard:disable Lint/RescueException -- those that wait get it, whatever it is
        failed(error)
        raise if SignalException === error # a Ctrl-C is not for a client
      ensure
        @fill.conclude # a task may also be killed
      end

      private

      # @return [Boolean] whether the fetch is over; false: the app must be called again
      def attempt
        raise Fill::Abandoned, "no request waits for this response" if @fill.abandoned?
        env = @fetch_env.call(@plan.env, key: @plan.key, pass: @names)
        env.merge!(Conditional.headers_for(@stale.headers)) if @stale
        @guard = EnvGuard.new(given = own(env))
        @requested_at = wall_clock
        status, headers, body = ask(given)
        @responded_at = wall_clock
        return withdraw if @guard.lost?
        respond(env, status.to_i, headers, body)
      ensure
        body.close if body.respond_to?(:close) && !@handed_over
      end

      # The note is there before those that wait go on.
      def ask(env)
        @app.call(@plan.interim ? env.merge!(@plan.interim.entries) : env)
      ensure
        @plan.upstream = env[UPSTREAM]
      end

      # The app may change its env, and the strings in it. What it was asked decides about sharing, and for which
      # requests a response is.
      def own(env) = env.transform_values { |value| (String === value) ? value.dup : value }

      # Each request that waits calls the app by itself, the first one too.
      def withdraw
        @hints.mark(@plan.key, @settings.uncollapsible_ttl, @guard.reason)
        @fill.refuse
        @lease&.release
        true
      end

      def respond(env, status, headers, body)
        return renew(env, headers) if status == 304 && @stale
        ill = ILL.include?(status)
        return serve(@stale, reason: :stale) if ill && usable_in_trouble?
        reason = not_shared(env, status, headers, body)
        alone = reason && !(ill && @fill.again? && for_all?(env, headers))
        return give(status, headers, body, reason, ill:) if alone
        vary = @settings.vary_of(status, headers)
        return again_with(@names | vary.names) if dropped?(vary.names - @names)
        return again_with(vary.names) if dropped?(@names - vary.names) # it may depend on what it does not name any more
        share(env, status, headers, body, vary, reason:)
      end

      def not_shared(env, status, headers, body)
        return :streaming if !body.respond_to?(:each) || headers.key?("rack.hijack")
        return @guard.reason if @guard.reason
        return :too_long if headers["content-length"].to_i > @settings.max_object
        @settings.refusal(status, headers, env)
      end

      # An error that is the same for all is shared with those that wait, and not stored.
      def for_all?(env, headers)
        reason = @settings.refusal(200, headers, env)
        reason.nil? || reason == :no_freshness
      end

      # @return [Boolean] whether the request has one of these headers, and the app gets the header only if responses
      #   vary on it
      def dropped?(names)
        names.any? do |name|
          entry = @fetch_env.entry(name)
          @plan.env.key?(entry) && @fetch_env.drops?(entry)
        end
      end

      # Of the headers that it would not get otherwise, the app gets these from now on.
      def again_with(names)
        @names = names.sort
        @hints.depends(@plan.key, @names)
        false
      end

      # A 304 of another response, or one that makes the stored response private: the app is asked without conditions.
      def renew(env, headers)
        unless (merged = merge(env, headers))
          @stale = nil
          return false
        end
        entry = @stale.renewed(headers: merged, requested_at: @requested_at, responded_at: @responded_at,
          tags: @settings.tags(merged))
        write(entry)
        serve(entry)
      end

      def merge(env, headers)
        return unless Conditional.selects?(@stale.headers, headers)
        merged = StoredHeaders.of(Conditional.merge(@stale.headers, headers, received_at: @responded_at))
        return unless @settings.vary_of(@stale.status, merged) == @settings.vary(@stale)
        merged unless ResponsePolicy.of_validation(status: @stale.status, headers: merged, not_modified: headers,
          request_env: env, **@settings.policy)
      end

      def serve(entry, reason: nil)
        @fill.serve(entry, reason:)
        true
      end

      # One request has it alone. One that streams reads it by itself, since a stream or socket is the request's own.
      def give(status, headers, body, reason, ill:)
        @hints.mark(@plan.key, @settings.uncollapsible_ttl, reason) unless ill
        released = (ill && !@fill.again?) ? :retry : :pass
        if reason == :streaming
          @handed_over = @fill.give([status, headers, body], reason:, released:)
        elsif @fill.give([status, headers], reason:, released:)
          @lease&.release # its body may be long
          pump(headers, body)
        end
        true
      end

      def share(env, status, headers, body, vary, reason:)
        kept = StoredHeaders.of(headers, received_at: @responded_at)
        values = [*vary.values(env), *@plan.extras].freeze
        if reason.nil?
          @hints.clear(@plan.key)
          @hints.depends(@plan.key, vary.names)
        end
        entry = {status:, headers: kept, requested_at: @requested_at, responded_at: @responded_at, vary: values,
                 tags: @settings.tags(headers)}
        @fill.share(Entry.new(**entry, chunks: []), reason:)
        pump(headers, body)
        tell(@fill.spool.error) if @fill.spool.error
        store(entry) if reason.nil? && @fill.spool.whole? && @guard.reason.nil?
        true
      end

      def store(entry)
        spool = @fill.spool
        return if @store.respond_to?(:max_entry) && spool.bytes > @store.max_entry # so it is not even read
        chunks = spool.chunks || Array.new(spool.count) { |index| spool.load(spool.place(index)) }
        write(Entry.new(**entry, chunks:))
      end

      # A child that comes back from fork returns from the app too, with a response that is no client's.
      def write(entry)
        @store.write(@plan.key, entry, generation: @fill.generation) if @process == Process.pid
      end

      def pump(headers, body)
        body.each { |chunk| @fill << chunk }
        length = headers["content-length"]
        if length && length.to_i != @fill.spool.bytes
          raise Fill::Truncated, "the app has sent #{@fill.spool.bytes} of #{length} bytes (content-length)"
        end
        @fill.finish
      end

      def failed(error)
        return withdraw if !@fill.decided? && @guard&.lost? && StandardError === error
        if !@fill.decided? && StandardError === error && usable_in_trouble?
          serve(@stale, reason: :stale)
          tell(error)
        else
          @fill.fail(error) || tell(error)
        end
      end

      # No client gets this error.
      def tell(error)
        return if Fill::Abandoned === error || Cancelled === error
        @plan.env["rack.errors"]&.write("NeverBlock::Cache: #{error.message} (#{error.class}), in the fetch of " \
          "#{@plan.key}\n")
      rescue
        nil # the stream may be closed with the request
      end

      def usable_in_trouble? = !@stale.nil? && @settings.freshness(@stale).stale_if_error?(wall_clock)

      def wall_clock = Clock.wall
    end
  end
end
