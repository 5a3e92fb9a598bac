# frozen_string_literal: true

module NeverBlock
  class Cache
    # The session that the app gets when the cache fetches a response for many: empty, as that of a client without
    # cookies. An app that writes into the session, or asks for its id, has a response for one client: the response is
    # thrown away, and each request calls the app by itself.
    #
    #   session = GuardedSession.new
    #   session[:user]           # => nil
    #   session.touched?         # => false
    #   session[:visits] = 1
    #   session.touched?         # => true
    # @api private
    class GuardedSession < BasicObject
      # Entries of env.
      SESSION = "rack.session"
      OPTIONS = "rack.session.options"
      # What reads and changes nothing, of Hash and of the sessions of Rack and Rails.
      READS = %i[
        [] fetch dig key? has_key? include? member? key keys values values_at size length count empty? any? none? to_h
        to_hash each each_pair each_key each_value map select filter reject slice except find inspect to_s hash == eql?
        frozen? is_a? kind_of? instance_of? nil? class object_id respond_to? present? blank? as_json to_json
      ].to_h { |name| [name, true] }.freeze
      private_constant :READS

      # @param session [Object, nil] the session of a client
      # @return [Boolean] whether the session has values, which are the client's own. A session that is not loaded yet
      #   has none, as the client has sent no cookie
      def self.used?(session)
        return false if session.nil? || (session.respond_to?(:loaded?) && !session.loaded?)
        !session.respond_to?(:empty?) || !session.empty?
      end

      def initialize
        @values = {}
        @touched = false
      end

      # @return [Boolean] whether the response is for one client
      def touched? = @touched

      # Of Rails: the session is there, and nothing was stored for the client.
      # @return [Boolean]
      def enabled? = true

      # @return [Boolean]
      def loaded? = true

      # @return [Boolean]
      def exists? = false

      # @return [Hash]
      def options = {}

      # @return [nil]
      def destroy = clear

      # What is asked as of a Hash. Rails and Rack have sessions with keys of String.
      def method_missing(name, *arguments, **options, &)
        @touched = true unless READS[name]
        return @values.public_send(name, *arguments, **options, &) if @values.respond_to?(name)
        nil
      end

      def respond_to_missing?(...) = @values.respond_to?(...)

      # BasicObject has methods of its own for these.
      def ==(other) = other.equal?(self)

      def !=(other) = !(self == other)
    end
  end
end
