# frozen_string_literal: true

require_relative "guarded_session"

module NeverBlock
  class Cache
    # Looks, after the app was called for many, whether the app has used the env for one client: a session, cookies that
    # an outer middleware would send, a nonce of the Content-Security-Policy. Outer middleware reads the env of the
    # client, so that what the app puts into the env of the fetch would be lost.
    #
    #   guard = EnvGuard.new(env)
    #   app.call(env)
    #   guard.reason      # => :session
    #   guard.lost?       # => true: the response lacks what an outer middleware would have added
    # @api private
    class EnvGuard
      COOKIES = "action_dispatch.cookies"
      # Rails puts a form's token there; the middleware of sessions writes the token into the session.
      TOKEN = "action_controller.csrf_token"
      NONCE = "action_dispatch.content_security_policy_nonce"
      # What an action can change, and what a middleware of Rails makes headers from.
      POLICIES = %w[
        content_security_policy content_security_policy_report_only content_security_policy_nonce_directives
        permissions_policy
      ].map { |name| "action_dispatch.#{name}" }.freeze
      # An app's own word that the response is for one client. A proxy says so, if it drops the field that tells.
      UNSHARED = "neverblock.unshared"
      # What is written to a jar of cookies.
      Written = Struct.new(:any) do
        def set_cookie(*) = self.any = true

        def delete_cookie(*) = self.any = true
      end
      private_constant :COOKIES, :TOKEN, :NONCE, :POLICIES, :UNSHARED, :Written

      # @param env [Hash] of a client, after the app was called with this env
      # @return [Boolean] whether a session, a nonce or the app may have made the response one for this client alone
      def self.doubtful?(env) = env.key?(GuardedSession::SESSION) || env.key?(NONCE) || env.key?(UNSHARED)

      # @param env [Hash] of the fetch, from {FetchEnv#call}
      def initialize(env)
        @env = env
        @session = env[GuardedSession::SESSION]
        @policies = env.values_at(*POLICIES) if @session
      end

      # @return [Symbol, nil] why the response is for one request alone: :session, :cookies, :policy, :unshared, :nonce
      def reason
        return :session if @session && (session_used? || @env.key?(TOKEN))
        return :cookies if @session && cookies_written?
        return :policy if @session && !@policies.zip(@env.values_at(*POLICIES)).all? { |old, new| old.equal?(new) }
        return :unshared if @env.key?(UNSHARED)
        :nonce if @env.key?(NONCE)
      end

      # @return [Boolean] whether the app has to be called again with a client's own env. That is so where middleware
      #   with sessions is outside of the cache
      def lost? = !@session.nil? && !reason.nil?

      private

      # Rails replaces a session that is reset.
      def session_used? = @session.touched? || !@session.equal?(@env[GuardedSession::SESSION])

      def cookies_written?
        jar = @env[COOKIES] or return false
        return true unless jar.respond_to?(:write)
        written = Written.new(false)
        jar.write(written)
        written.any
      end
    end
  end
end
