# frozen_string_literal: true

module NeverBlock
  module ActionCaching
    # Something of the user that an action has read although its response is for many.
    #
    #   Read.new(:header, "User-Agent", caller).to_s    # => "the header User-Agent"
    #   Read.new(:token, nil, caller).to_s              # => "form_authenticity_token"
    # @api private
    class Read
      NAMES = {token: "form_authenticity_token", nonce: "content_security_policy_nonce"}.freeze
      PER = "give each user a response by `per: -> { current_user&.id }`"
      FILTER = "Let a filter read it, and name in vary: what the page then depends on; or #{PER}"
      REMEDIES = {
        session: FILTER, cookies: FILTER, credentials: FILTER,
        flash: "Show it by JavaScript, or redirect to an action that is not cached",
        token: "Load the form with a Turbo Frame or JavaScript from an action that is not cached, and leave " \
          "csrf_meta_tags out of the page's layout",
        nonce: "Use a layout without inline scripts, styles and csp_meta_tag, or hashes in place of the nonce",
        header: "Name it in vary:, as in `vary: -> { request.user_agent.to_s.include?(\"Mobile\") }`",
        user: "Show what concerns the user by JavaScript, or #{PER}"
      }.freeze
      private_constant :NAMES, :PER, :FILTER, :REMEDIES

      # @return [Symbol]
      attr_reader :kind
      # @return [Array<String>]
      attr_reader :backtrace

      # @param kind [Symbol]
      # @param name [String, nil] of a header or a method
      # @param backtrace [Array<String>]
      def initialize(kind, name, backtrace)
        @kind = kind
        @name = name
        @backtrace = backtrace
      end

      # @return [String]
      def remedy = REMEDIES.fetch(@kind)

      # @return [String, nil] the first line of the app
      def place = ActionCaching.settings.clean.call(@backtrace).first

      # @return [String]
      def to_s
        case @kind
        when :header, :credentials then @name ? "the header #{@name}" : "all headers"
        else @name || NAMES[@kind] || @kind.to_s
        end
      end
    end
  end
end
