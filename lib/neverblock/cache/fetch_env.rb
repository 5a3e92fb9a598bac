# frozen_string_literal: true

require "stringio"
require_relative "guarded_session"

module NeverBlock
  class Cache
    # What of a request reaches the app when the cache fetches a response for many: the parts that the key consists of,
    # the headers by which content is negotiated, and the settings of frameworks. All else says something about one
    # client.
    #
    #   fetch_env = FetchEnv.new(ignore: ["x-trace"])
    #   fetch_env.foreign(env)       # => "current_user": set by a middleware outside, so that nothing is shared.
    #                                # So does a session with values
    #   fetch_env.extras(env)        # => [["x-turbo", "1"]]: part of the key
    #   fetch_env.call(env, pass: ["user-agent"])
    # @api private
    class FetchEnv
      # Headers that reach the app, and on which a response depends only if it says so (Vary). With `same_url` they
      # do not reach the app, unless a response varies on them: one client's would decide for all.
      NEGOTIATED = %w[ACCEPT ACCEPT_CHARSET ACCEPT_ENCODING ACCEPT_LANGUAGE].freeze

      # Headers that do not reach the app, unless a response varies on them: they differ from client to client or from
      # request to request, or are a proxy's word on the client. Conditions and ranges are the cache's own business.
      DROPPED = %w[
        USER_AGENT REFERER ORIGIN DNT PRIORITY FROM SAVE_DATA UPGRADE_INSECURE_REQUESTS CACHE_CONTROL PRAGMA CONNECTION
        KEEP_ALIVE PROXY_CONNECTION TE TRAILER RANGE IF_RANGE IF_NONE_MATCH IF_MODIFIED_SINCE IF_MATCH
        IF_UNMODIFIED_SINCE VIA FORWARDED MAX_FORWARDS VERSION HTTP2_SETTINGS EARLY_DATA
        X_FORWARDED_FOR X_FORWARDED_HOST X_FORWARDED_PORT X_FORWARDED_PROTO X_FORWARDED_SCHEME X_FORWARDED_SSL
        X_FORWARDED_SERVER X_FORWARDED_PREFIX X_FORWARDED_BY X_HOST X_REAL_IP X_CLIENT_IP X_CLUSTER_CLIENT_IP
        TRUE_CLIENT_IP CLIENT_IP X_REQUEST_ID X_REQUEST_START X_QUEUE_START X_CORRELATION_ID X_AMZN_TRACE_ID
        X_CLOUD_TRACE_CONTEXT TRACEPARENT TRACESTATE BAGGAGE X_B3_TRACEID X_B3_SPANID X_B3_SAMPLED X_VARNISH
        SEC_FETCH_SITE SEC_FETCH_MODE SEC_FETCH_USER SEC_FETCH_DEST SEC_PURPOSE SEC_GPC SEC_CH_UA SEC_CH_UA_MOBILE
        SEC_CH_UA_PLATFORM CDN_LOOP CF_RAY CF_VISITOR CF_CONNECTING_IP CF_IPCOUNTRY FASTLY_CLIENT_IP
      ].freeze

      # What `pass` must not name: conditions, ranges, the connection, the content, the host.
      OWN_BUSINESS = %w[
        CACHE_CONTROL PRAGMA CONNECTION KEEP_ALIVE PROXY_CONNECTION TE TRAILER RANGE IF_RANGE IF_NONE_MATCH
        IF_MODIFIED_SINCE IF_MATCH IF_UNMODIFIED_SINCE MAX_FORWARDS HTTP2_SETTINGS CONTENT_LENGTH CONTENT_TYPE HOST
      ].map { |name| "HTTP_#{name}" }.freeze
      # In `pass`: all headers that are not known.
      ALL = "*"

      # Entries of servers, and of Rack (SPEC). Of frameworks only settings are known.
      SERVER = %w[
        REQUEST_METHOD SCRIPT_NAME PATH_INFO QUERY_STRING REQUEST_URI REQUEST_PATH SERVER_NAME SERVER_PORT
        SERVER_PROTOCOL SERVER_SOFTWARE GATEWAY_INTERFACE HTTP_HOST HTTPS rack.version rack.url_scheme rack.errors
        rack.logger rack.multithread rack.multiprocess rack.run_once ORIGINAL_SCRIPT_NAME ORIGINAL_FULLPATH
      ].freeze
      CLIENT = %w[
        REMOTE_ADDR REMOTE_PORT REMOTE_HOST CONTENT_LENGTH CONTENT_TYPE PATH_TRANSLATED rack.input rack.hijack
        rack.hijack? rack.early_hints rack.response_finished rack.after_reply rack.protocol rack.tempfiles
        rack.multipart.buffer_size rack.multipart.tempfile_factory protocol.http.request
        action_dispatch.request_id action_dispatch.remote_ip action_dispatch.authorized_host
        action_dispatch.request.unsigned_session_cookie rails.rack_logger_tag_count
      ].freeze
      SESSION = [GuardedSession::SESSION, GuardedSession::OPTIONS].freeze
      # What Rails puts into each env before its middleware: settings, and the routes.
      SETTINGS = %w[
        parameter_filter redirect_filter secret_key_base show_exceptions show_detailed_exceptions log_rescued_responses
        debug_exception_log_level logger backtrace_cleaner key_generator http_auth_salt signed_cookie_salt
        encrypted_cookie_salt encrypted_signed_cookie_salt authenticated_encrypted_cookie_salt
        use_authenticated_cookie_encryption encrypted_cookie_cipher signed_cookie_digest cookies_serializer
        cookies_digest cookies_rotations cookies_same_site_protection use_cookies_with_metadata
        content_security_policy content_security_policy_report_only content_security_policy_nonce_generator
        content_security_policy_nonce_directives permissions_policy routes
      ].map { |name| "action_dispatch.#{name}" }.freeze
      ROUTES = /\AROUTES_\d+_SCRIPT_NAME\z/
      # What servers keep there for themselves, and what Rack parses anew.
      OWN = /\A(?:neverblock|puma|async|falcon|itsi|iodine|rack\.request)\./
      MOST_ENTRIES = 1_000
      # Entries that repeat path and query.
      URLS = %w[REQUEST_URI ORIGINAL_FULLPATH].freeze
      HEADER = "HTTP_"
      NOTHING = [].freeze
      private_constant :NEGOTIATED, :SERVER, :CLIENT, :SESSION, :SETTINGS, :ROUTES, :OWN, :URLS, :MOST_ENTRIES,
        :HEADER, :NOTHING

      # @param ignore [Array<String>] further headers that do not reach the app
      # @param allow [Array<String>] env entries of outer middleware that are the same for all clients
      # @param pass [Array<String>] further headers that reach the app, and count only if a response varies on them;
      #   "*": all unusual ones
      # @param same_url [Boolean] whether unusual headers, and those that negotiate, do not reach the app either
      def initialize(ignore: [], allow: [], pass: [], same_url: false)
        @unusual = if same_url then :drop
        else
          pass.include?(ALL) ? :pass : :extra
        end
        @entries = {}
        [*DROPPED, *ignore].each { |name| @entries[entry(name)] = :drop }
        NEGOTIATED.each { |name| @entries[entry(name)] = same_url ? :drop : :pass }
        pass.each { |name| @entries[entry(name)] = :pass }
        [*SERVER, *SETTINGS, *allow].each { |name| @entries[name] = :pass }
        CLIENT.each { |name| @entries[name] = :drop }
        SESSION.each { |name| @entries[name] = :session }
      end

      # @param env [Hash]
      # @return [String, nil] the name of an entry that is unknown: an outer middleware may keep a user's state there
      def foreign(env)
        env.each_key { |name| return name if kind(name) == :foreign }
        GuardedSession::SESSION if GuardedSession.used?(env[GuardedSession::SESSION])
      end

      # @param env [Hash]
      # @return [Array<Array(String, String)>, nil] unusual headers, that reach the app and are part of the key, sorted;
      #   nil: an entry is {#foreign}
      def extras(env)
        found = nil
        env.each do |name, value|
          case kind(name)
          when :extra then (found ||= []) << [name, value]
          when :foreign then return nil
          when :session then return nil if name == GuardedSession::SESSION && GuardedSession.used?(value)
          end
        end
        found ? found.sort : NOTHING
      end

      # @param env [Hash] a request's
      # @param key [String] its key: parameters that do not belong to the key do not reach the app
      # @param pass [Array<String>] names of dropped headers, in lower case, that a response varies on
      # @return [Hash] the env of a GET for the app
      def call(env, key:, pass: [])
        pass = pass.map { |name| entry(name) }
        fetch = env.select { |name, _| %i[pass extra].include?(kind(name)) || pass.include?(name) }
        fetch["REQUEST_METHOD"] = "GET"
        fetch["REMOTE_ADDR"] = "0.0.0.0" # no client's: an app that trusts an address must not trust this one
        fetch["rack.input"] = StringIO.new("".b)
        guard_session(fetch) if env.key?(GuardedSession::SESSION)
        query(fetch, key.partition("?").last)
        fetch
      end

      # @param name [String] a header's, in lower case
      # @return [String] its name in env
      def entry(name) = "HTTP_#{name.upcase.tr("-", "_")}".freeze

      # @param entry [String] a name in env
      # @return [Boolean] whether this header does not reach the app
      def drops?(entry) = kind(entry) == :drop

      private

      def guard_session(env)
        env[GuardedSession::SESSION] = GuardedSession.new
        env[GuardedSession::OPTIONS] = {}
      end

      def query(env, query)
        return if env["QUERY_STRING"].to_s == query && !query.empty? # "/a?" has the key of "/a"
        env["QUERY_STRING"] = query
        query = "?#{query}" unless query.empty?
        URLS.each { |name| env[name] = "#{env[name].partition("?").first}#{query}" if env.key?(name) }
      end

      def kind(name)
        @entries[name] || (name.start_with?(HEADER) ? @unusual : unlisted(name))
      end

      def unlisted(name)
        kind = if ROUTES.match?(name) then :pass
        else
          OWN.match?(name) ? :drop : :foreign
        end
        @entries[name] = kind if @entries.size < MOST_ENTRIES
        kind
      end
    end
  end
end
