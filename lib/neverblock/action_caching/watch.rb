# frozen_string_literal: true

require_relative "headers"
require_relative "read"

module NeverBlock
  module ActionCaching
    # Knows what one request's filters, and its action with the view, have read of the user. {Hooks} tell it.
    #
    #   Watch.open(controller, rule) do |watch|
    #     watch.sign            # => :session: a filter has found something in the session
    #     watch.acting { }      # runs the action: from now on each read is kept
    #     watch.read            # => the first one
    #   end
    #
    # It is found by the fiber's storage, which child fibers and threads inherit.
    #
    # What filters learn of a user is a sign, and so is what they put into the session, and a token or nonce that they
    # make. A read that finds nothing is none: all visitors without a session get the same. Plain cookies that filters
    # read or set belong to the key, and headers, apart from those that nearly each client has otherwise.
    # @api private
    class Watch
      STORAGE = :neverblock_action_caching
      QUIET = :neverblock_action_caching_quiet
      # Set in env by {SignedCookieReads} before there is a watch.
      SIGNED = "neverblock.action_caching.signed"
      COOKIE_BYTES = 256 # of one that belongs to the key
      CONDITIONS = %w[HTTP_IF_NONE_MATCH HTTP_IF_MODIFIED_SINCE].freeze
      FLASH = "action_dispatch.request.flash_hash"
      SESSION = "rack.session"
      # Entries of env that appear when a page uses these.
      TRACES = {"action_controller.csrf_token" => :token, "action_dispatch.content_security_policy_nonce" => :nonce}
        .freeze
      private_constant :STORAGE, :QUIET, :COOKIE_BYTES, :CONDITIONS, :FLASH, :TRACES

      class << self
        # @return [Watch, nil] of the request that runs
        def current = Fiber[STORAGE]

        # @param controller [ActionController::Metal]
        # @return [Watch, nil] if it is the controller's
        def of(controller) = current&.then { |watch| watch if watch.controller.equal?(controller) }

        # @yieldparam watch [Watch]
        # @return [Object] the block's value
        def open(controller, rule)
          before = Fiber[STORAGE]
          Fiber[STORAGE] = watch = new(controller, rule)
          yield watch
        ensure
          watch&.release
          Fiber[STORAGE] = before
        end

        # What Rails reads for its own purposes is not told.
        # @return [Object] the block's value
        def quietly
          before = Thread.current[QUIET]
          Thread.current[QUIET] = true
          yield
        ensure
          Thread.current[QUIET] = before
        end

        # @return [Boolean]
        def quiet? = !Thread.current[QUIET].nil?
      end

      # @return [ActionController::Metal]
      attr_reader :controller
      # @return [Rule]
      attr_reader :rule
      # @return [Symbol, nil] what filters have learnt of the user
      attr_reader :sign
      # @return [Read, nil] the first one of the action
      attr_reader :read
      # @return [Hash{String=>String}] plain cookies that filters have read
      attr_reader :cookies
      # @return [Hash{String=>String, nil}] entries of env that filters have read, and that belong to the key
      attr_reader :headers
      # @return [Hash{String=>true}] entries of env that `vary:` and `per:` have read
      attr_reader :declared

      def initialize(controller, rule)
        @controller = controller
        @rule = rule
        @phase = :filters
        @cookies = {}
        @headers = {}
        @declared = {}
        @conditions = {}
        @sign = @read = @flash = nil
        @sets_cookie = @storing = false
        look_back(controller.request)
      end

      # @return [Boolean] whether the action has set a cookie
      def sets_cookie? = @sets_cookie

      # @return [Boolean] whether the action runs, so that what another controller reads within it is read by it
      def acting? = @phase == :action

      # @return [Boolean] whether the request's conditions were left out
      def deferred? = @conditions.any?

      # @return [Object] the block's value; what it reads is declared
      def choosing
        @phase = :choices
        yield
      ensure
        @phase = :filters
      end

      # @param storing [Boolean] whether the response may be stored
      # @return [Object] the block's value
      def acting(storing:)
        @storing = storing
        env = @controller.request.env
        before = TRACES.keys.select { |name| env.key?(name) }
        @phase = :action
        value = yield
        TRACES.except(*before).each { |name, kind| note(kind) if env.key?(name) }
        @read ||= @flash if env[FLASH] && !env[FLASH].empty?
        value
      ensure
        finish
      end

      # @return [Boolean] whether a message waits for the client's next page
      def flash?
        request = @controller.request
        return false unless request.respond_to?(:flash)
        return false if !request.env.key?("HTTP_COOKIE") && !request.env.key?(FLASH)
        Watch.quietly { !request.flash.empty? }
      end

      # From now on nothing is noted.
      # @return [void]
      def finish
        @phase = :over
        @controller.request.env.merge!(@conditions)
      end

      # Threads and fibers that an action has begun inherit the watch, and may live long.
      # @return [void]
      def release
        finish
        @controller = nil
      end

      # An action that declares for how long its response may be stored has to render it, whatever the browser has.
      # @return [void]
      def defer_conditions
        return unless @phase == :action && @storing
        return unless @rule.expires_in || @controller.response.cache_control[:max_age].to_i.positive?
        CONDITIONS.each do |name|
          value = @controller.request.env.delete(name)
          @conditions[name] = value if value
        end
      end

      # @return [String] as in "ReportsController#index"
      def label = "#{@controller.class.name}##{@controller.action_name}"

      # @param session [Object]
      # @param all [Boolean] whether the call reads whatever there is, instead of one value
      # @return [Object] the block's value
      def session(session, all: false)
        return yield if Watch.quiet? || @phase == :over
        note(:session) if @phase == :action && !@rule.per?
        Watch.quietly do
          learn(:session) if all && !session.empty? # before the block, which may be left by break
          value = yield
          learn(:session) if !all && value
          value
        end
      end

      # @param put [Boolean] whether the call puts something into the session
      # @return [Object] the block's value
      def write_session(put: false)
        return yield if Watch.quiet? || @phase == :over
        @sets_cookie = true if @phase == :action
        note(:session) if @phase == :action && !@rule.per?
        learn(:session) if put
        Watch.quietly { yield }
      end

      # @return [Object] the block's value: what is no more in the session
      def take_from_session
        write_session { yield }.tap { |value| learn(:session) if value && !Watch.quiet? && @phase != :over }
      end

      # @param name [String, Symbol]
      # @param value [Object, nil] nil: the cookie is deleted
      # @return [void]
      def set_cookie(name, value)
        return @sets_cookie = true if @phase == :action
        keep(name, value) unless value.nil? || Watch.quiet? || @phase == :over
      end

      # @param name [String, Symbol]
      # @return [Object] the block's value
      def cookie(name)
        return yield if Watch.quiet? || @phase == :over
        note(:cookies) if @phase == :action && !@rule.per?
        value = yield
        keep(name, value) if value && @phase != :action
        value
      end

      # Signed and encrypted cookies, or all at once.
      # @param any [Boolean] whether there are some
      # @return [Object] the block's value
      def cookies_of_user(any: false)
        return yield if Watch.quiet? || @phase == :over
        note(:cookies) if @phase == :action && !@rule.per?
        learn(:cookies) if any
        Watch.quietly do
          value = yield
          learn(:cookies) if value && !(value.respond_to?(:empty?) && value.empty?)
          value
        end
      end

      # @param name [String] an entry of env
      # @return [void]
      def header(name)
        return if @phase == :over || !(String === name) || Watch.quiet?
        kind = Headers.kind(name) or return
        return filter_header(kind, name) if @phase == :filters
        return @declared[name] = true if @phase == :choices
        return if @declared.key?(name) || (@rule.per? && kind != :header)
        note(kind, Headers.name(name))
      end

      # All headers at once.
      # @return [void]
      def all_headers
        return if @phase == :over || Watch.quiet?
        (@phase == :action) ? note(:header) : learn(:headers)
      end

      # A flash without a message says nothing. One with a message keeps the request apart, so that what is there in the
      # end comes from the action.
      # @return [Object] the block's value
      def flash
        return yield if Watch.quiet? || @phase == :over
        @flash ||= Read.new(:flash, nil, caller(2)) if @phase == :action
        Watch.quietly { yield }
      end

      # @param kind [:token, :nonce] of what belongs to one response
      # @return [Object] the block's value
      def only_once(kind)
        return yield if Watch.quiet? || @phase == :over
        value = Watch.quietly { yield }
        return value unless value
        (@phase == :action) ? note(kind) : learn(kind)
        value
      end

      # @param name [String] of a method that gives the user
      # @return [void]
      def user(name)
        note(:user, name) if @phase == :action && !@rule.per? && !Watch.quiet?
      end

      private

      def note(kind, name = nil) = @read ||= Read.new(kind, name, caller(2))

      def learn(sign) = (@sign ||= sign unless @phase == :action)

      # Credentials are a sign anyhow.
      def filter_header(kind, name)
        value = @controller.request.env[name]
        return (learn(:cookies) if value) if kind == :cookies
        @headers[name] = value unless kind == :credentials || Headers.usual?(name)
      end

      def keep(name, value)
        small = String === value && value.bytesize <= COOKIE_BYTES
        small ? @cookies[name.to_s] = value : learn(:cookies)
      end

      # Middleware may have read the session before.
      def look_back(request)
        session = request.get_header(SESSION)
        learn(:session) if session&.loaded? && !Watch.quietly { session.empty? }
        learn(:cookies) if request.get_header(SIGNED)
      end
    end
  end
end
