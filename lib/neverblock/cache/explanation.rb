# frozen_string_literal: true

module NeverBlock
  class Cache
    # What the cache would do with a request, and why. It asks neither the app nor changes anything.
    #
    #   puts cache.explain(env)
    #   # key: https://example.org/report
    #   # revision: 4f2a91c
    #   # headers of the key: accept-encoding "gzip"
    #   # a stored response is used: fresh for 42 s
    class Explanation
      # @return [String, nil] the key of the URL; nil: it has none
      attr_reader :key
      # @return [String, nil] of the app's release
      attr_reader :revision
      # @return [Symbol] :bypass, :hit, :stale, :join, :alone or :fetch
      attr_reader :action
      # @return [Symbol, nil] why it bypasses the cache
      attr_reader :reason
      # @return [Array<Array(String, String)>] headers that belong to the key
      attr_reader :headers

      # @api private
      # @param rooms [Lookup::Rooms]
      # @param env [Hash]
      # @param request [RequestPolicy]
      def initialize(rooms, env, request)
        @key = request.key
        @revision = rooms.settings.revision
        foreign = rooms.fetch_env.foreign(env)
        @reason = request.reason || (:env if foreign)
        @foreign = foreign if @reason == :env
        @headers = []
        @reason ? (@action = :bypass) : look_up(rooms, env, request)
      end

      # @return [String]
      def to_s = text

      # @param app [String] what the app is called
      # @return [String]
      def text(app: "the app")
        lines = ["key: #{@key || "none"}"]
        lines << "revision: #{@revision}" if @revision
        names = @headers.map { |name, value| shown(name, value) }.uniq
        lines << "headers of the key: #{names.join(", ")}" if names.any?
        (lines << "#{sentence(app)}#{others}").join("\n")
      end

      private

      def look_up(rooms, env, request)
        lookup = Lookup.new(rooms, env, request, rooms.fetch_env.extras(env))
        entry = lookup.entry
        @others = rooms.store.read(@key).size - (entry ? 1 : 0)
        @headers = Revision.without(entry ? entry.vary : lookup.fill_key.last)
        @ttl = rooms.settings.freshness(entry).ttl(Clock.wall).floor if entry
        @action =
          if entry then lookup.fresh?(entry) ? :hit : :stale
          elsif (@state = lookup.state) then :alone
          elsif rooms.fills.any?(lookup.fill_key) then :join
          elsif rooms.hints.uncollapsible?(@key)
            @why = rooms.hints.reason(@key) || "unknown"
            :alone
          else :fetch
          end
      end

      # Unusual headers have the names of Rack's env.
      def shown(name, value)
        name = name.delete_prefix("HTTP_").downcase.tr("_", "-") if name.start_with?("HTTP_")
        value ? "#{name} #{value.inspect}" : "no #{name}"
      end

      def sentence(app)
        case @action
        when :bypass
          "#{app} is asked, and its response is not shared: #{@reason}#{" (#{@foreign} in Rack's env)" if @foreign}"
        when :hit then "a stored response is used: fresh for #{@ttl} s"
        when :stale then "a stored response is validated: stale for #{-@ttl} s"
        when :join then "the request waits for a fetch that is under way"
        when :alone
          "#{app} is asked for this request alone: " +
            (@state ? "outer middleware has set #{@state}" : "its last response could not be shared (#{@why})")
        else "#{app} is asked, and its response stored if it may be shared"
        end
      end

      def others
        return unless @others&.positive?
        "; for other headers #{(@others == 1) ? "a response is" : "#{@others} responses are"} stored"
      end
    end
  end
end
