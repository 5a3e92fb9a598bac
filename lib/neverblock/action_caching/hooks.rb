# frozen_string_literal: true

require_relative "session_reads"
require_relative "cookie_reads"
require_relative "signed_cookie_reads"
require_relative "request_reads"
require_relative "flash_reads"
require_relative "token_reads"

module NeverBlock
  module ActionCaching
    # Tells the {Watch} of what is read of a user: prepends modules to classes of Rails when the first controller
    # includes {ActionCaching}. Each of these methods does what it did; without a watch it does nothing else.
    # @api private
    module Hooks
      LOCK = Thread::Mutex.new
      private_constant :LOCK

      class << self
        # @param flash [Boolean] whether the controller has a flash
        # @return [void]
        def install(flash:)
          LOCK.synchronize do
            hook(ActionDispatch::Cookies::CookieJar, CookieReads)
            hook(ActionDispatch::Cookies::AbstractCookieJar, SignedCookieReads)
            hook(ActionDispatch::Request, RequestReads)
            hook(ActionController::RequestForgeryProtection, TokenReads)
            hook(ActionDispatch::Flash::RequestMethods, FlashReads) if flash || flash_loaded?
            session(ActionDispatch::Request::Session)
            session(Rack::Session::Abstract::SessionHash)
          end
        end

        private

        # An app without a flash has none afterwards either.
        def flash_loaded? = ActionDispatch.autoload?(:Flash).nil?

        def hook(target, reads) = (target.prepend(reads) unless target < reads)

        def session(target)
          return if target < SessionReads
          target.prepend(SessionReads, SessionReads.of(target))
        end
      end
    end
  end
end
