# frozen_string_literal: true

require_relative "../flight"
require_relative "../cache/hints"
require_relative "entry"
require_relative "guard"
require_relative "key"
require_relative "user_methods"

module NeverBlock
  module ActionCaching
    # The way of one request, inside of its filters: a stored response, that of another request which runs the action
    # now, or the action.
    #
    #   Lookup.new(controller, watch).call { run_the_action }
    # @api private
    class Lookup
      # A key whose response could not be stored: for this time each request runs the action by itself, at once.
      UNSTORABLE = 60 # seconds
      TOKEN = /\A[\x21-\x7e&&[^,"]]+\z/
      FLIGHTS = Flight.new
      HINTS = Cache::Hints.new(limit: 10_000)
      private_constant :UNSTORABLE, :TOKEN, :FLIGHTS, :HINTS

      # @param controller [ActionController::Metal] before its filters
      # @return [Boolean] whether its response could be stored or be a stored one
      def self.possible?(controller)
        request = controller.request
        session = request.get_header(Watch::SESSION)
        (request.get? || request.head?) && request.content_length.to_i.zero? &&
          !request.env.key?("HTTP_TRANSFER_ENCODING") && !live?(controller) &&
          !request.env.key?("HTTP_RANGE") && (session.nil? || SessionReads === session)
      end

      def self.live?(controller)
        ActionController.autoload?(:Live).nil? && ActionController::Live === controller
      end
      private_class_method :live?

      # @param controller [ActionController::Metal]
      # @param watch [Watch]
      def initialize(controller, watch)
        @controller = controller
        @watch = watch
        @rule = watch.rule
      end

      # @yield runs the action
      # @return [Object]
      def call(&action)
        return pass("if: or unless: says so", &action) unless @rule.met?(@controller)
        @scope, varies, @tags = @watch.choosing do
          [@rule.scope(@controller), @rule.varies(@controller), @rule.tags(@controller)]
        end
        Guard.unusable_tags(@watch) if @tags.nil?
        reason = refusal
        return pass(reason, &action) if reason
        UserMethods.watch(@controller.class)
        @store = ActionCaching.store if caching?
        return guarded(&action) unless @store
        @key = Key.of(@watch, scope: @scope, varies:, salt: @store.tags.salt)
        look_up(&action)
      end

      private

      # Rails' setting, which is off in development: what is wrong raises there too.
      def caching? = @controller.config.perform_caching != false

      # Without an opt-in, only what is known to come from no user. A message in the flash is for the client's next
      # page.
      # @return [String, nil] why this request is not cached
      def refusal
        return "tags: gives a tag that can't be one" unless @tags
        return "per: gives no user" unless @scope
        return "the flash has a message" if @watch.flash?
        sign = user_sign if @scope == Rule::ANONYMOUS
        return "the request has signs of a user (#{sign}), and neither shared: nor per: is declared" if sign
        "a filter has set the status, sent the response, or forbidden to store it" unless open?
      end

      def user_sign = @watch.sign || (Cache::Credentials.of(@controller.request.env) - [:cookie]).first

      def open? = Recording.open?(@controller.response)

      # The action runs as if it were not cached.
      def pass(reason)
        tell { "not used, since #{reason}" }
        @watch.finish
        yield
      end

      # One line for each request, where Rails has its lines of caches.
      def tell = @controller.logger&.debug { "  Action cache: #{yield}" }

      def look_up(&action)
        found = @store.read([@key, *@tags.map { |tag| @store.tags.name(tag) }])
        versions = @store.tags.versions(@tags, found) or return guarded(&action)
        entry = Entry.of(found[@key], versions:)
        return answer(entry) if entry
        return guarded(&action) if @controller.request.head?
        return run(versions, &action) if HINTS.uncollapsible?(@key)
        fly(versions, &action)
      end

      def answer(entry)
        tell { "hit" }
        @watch.finish
        entry.answer(@controller)
      end

      # Those that wait have the stored response; if there is none, each runs its own action. So an error of one is not
      # another's. After a purge the versions are others: no request waits for what began before.
      def fly(versions, &action)
        mine = failure = nil
        stored = board(versions) do
          mine = true
          run(versions, &action)
        rescue => failure
          nil
        end
        raise failure if failure
        return if mine
        entry = Entry.of(stored, versions:)
        entry ? answer(entry) : guarded(&action)
      end

      # @return [Hash, nil] nil also for an action that asks for its own page
      def board(versions, &)
        FLIGHTS.call([@key, versions, @store], &)
      rescue Flight::CircularError
        nil
      end

      # @return [Hash, nil] what was stored
      def run(versions, &action)
        recording = Recording.new(@controller.response)
        fit = guarded(storing: true, &action)
        stored = store(recording, versions) if fit
        stored ? HINTS.clear(@key) : HINTS.mark(@key, UNSTORABLE)
        settle
        stored
      end

      # @return [Boolean] whether the action has read nothing that concerns one user
      def guarded(storing: false, &)
        @watch.acting(storing:, &)
        Guard.call(@watch)
      end

      def store(recording, versions)
        lifetime = recording.lifetime(@rule.expires_in).to_f
        reason = lifetime.positive? ? recording.refusal(@watch) : :no_lifetime
        tell { reason ? "miss; the response can't be stored: #{reason}" : "miss; stored for #{lifetime.round(3)} s" }
        return if reason
        tell_other_caches
        hash = Entry.pack(recording, lifetime:, versions:)
        @store.write(@key, hash, lifetime) unless purged?(versions)
        hash
      end

      # It would be a miss, and may replace a newer one.
      def purged?(versions)
        versions.any? && @store.tags.versions(@tags, @store.read(@tags.map { |tag| @store.tags.name(tag) })) != versions
      end

      # A purge of the tag reaches {Cache} in front of the app too.
      def tell_other_caches
        response = @controller.response
        return unless response.cache_control[:public] && @tags.any? && !response.has_header?("Cache-Tag")
        return unless @tags.all?(TOKEN)
        response.set_header("Cache-Tag", @tags.join(", "))
      end

      # The action has rendered what the browser may have.
      def settle
        response = @controller.response
        return unless @watch.deferred? && response.status == 200 && !response.committed?
        Entry.not_modified(@controller) if @controller.request.fresh?(response)
      end
    end
  end
end
