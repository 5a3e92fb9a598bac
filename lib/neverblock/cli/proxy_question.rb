# frozen_string_literal: true

require "uri"
require_relative "../cache"

module NeverBlock
  class CLI
    # The request that `neverblock proxy explain` asks about: a URL and fields. The command writes it into the target of
    # a request to the control socket, where nothing but visible ASCII may stand; the proxy reads it.
    #
    #   text = ProxyQuestion.new("http://example.org/", ["Accept: */*"]).to_s
    #   # => "fields=Accept%3A+*%2F*&url=http://example.org/"; without fields the URL alone
    #   ProxyQuestion.read(text).env["HTTP_ACCEPT"]    # => "*/*"
    # @api private
    class ProxyQuestion
      # A field, of those that the server would take (RFC 9110, section 5).
      FIELD = /\A([!#$%&'*+\-.^`|~0-9A-Za-z]{1,256}):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)\z/n
      WITH_FIELDS = /\A(fields=[^&]*(?:&fields=[^&]*)*)&url=(.*)\z/m
      UNPREFIXED = {"content-type" => "CONTENT_TYPE", "content-length" => "CONTENT_LENGTH"}.freeze
      COOKIES = "HTTP_COOKIE"
      private_constant :FIELD, :WITH_FIELDS, :UNPREFIXED, :COOKIES

      # @param text [String] from {#to_s}
      # @return [ProxyQuestion]
      # @raise [ConfigurationError]
      def self.read(text)
        match = WITH_FIELDS.match(text) or return new(text)
        new(match[2], URI.decode_www_form(match[1]).map(&:last))
      end

      # @param url [String]
      # @param fields [Array<String>] each as "Name: value"
      # @raise [ConfigurationError] if one is no field
      def initialize(url, fields = [])
        @url = url
        @lines = fields
        @fields = fields.map { |line| read(line) }
      end

      # @return [String]
      def to_s = @lines.empty? ? @url : "#{URI.encode_www_form(@lines.map { |line| ["fields", line] })}&url=#{@url}"

      # @return [Hash] Rack's
      # @raise [ArgumentError] if it has no URL
      def env
        scheme, authority, path, query = Cache.parts_of(@url)
        path = "/" if path.to_s.empty?
        env = {"REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => path, "QUERY_STRING" => query.to_s,
               "REQUEST_URI" => query ? "#{path}?#{query}" : path, "HTTP_HOST" => authority,
               "rack.url_scheme" => scheme}
        @fields.each { |name, value| env[name] = [env[name], value].compact.join((name == COOKIES) ? "; " : ",") }
        env
      end

      private

      # @return [Array(String, String)] the name in Rack's env, and the value
      def read(line)
        name, value = FIELD.match(line.b)&.captures
        refuse(line, "is no field. Write it as -H 'Accept: text/html'") unless name
        name = name.downcase
        refuse(line, "has no meaning here: the URL has the host") if name == "host"
        [UNPREFIXED[name] || "HTTP_#{name.upcase.tr("-", "_")}", value.sub(/[ \t]+\z/, "")]
      end

      def refuse(line, why) = raise(ConfigurationError, "-H #{line.inspect} #{why}")
    end
  end
end
