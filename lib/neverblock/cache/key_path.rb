# frozen_string_literal: true

require_relative "field"

module NeverBlock
  class Cache
    # The path of a key: RFC 3986 §6.2.2, and nothing more.
    #
    #   KeyPath.normalize("/caf%c3%a9/%7euser/a%2fb//c;v=1")    # => "/caf%C3%A9/~user/a%2Fb//c;v=1"
    #   KeyPath.normalize("/a/%2e%2e/b")                         # => nil
    #
    # * Percent encodings get upper-case digits, and those of letters, digits and "-._~" are decoded. "%2F" stays,
    #   slashes are not merged, and parameters after ";" stay: an app may distinguish them.
    # * These have no normal form, and so no key, since apps and proxies disagree on what they mean: a path with a dot
    #   segment - also an encoded one, one with parameters, and one behind an encoded slash -, with a backslash or a
    #   control character, encoded or not, with an invalid percent encoding, or with a byte that a URL doesn't have.
    # @api private
    module KeyPath
      # RFC 3986 §3.3.
      PLAIN = %r{\A/[A-Za-z0-9._~!$&'()*+,;=:@/-]*\z}
      ENCODED = %r{\A/(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*+\z}
      UNRESERVED = /[A-Za-z0-9._~-]/
      DOT_SEGMENT = %r{/\.\.?(?:[/;]|\z)}
      REFUSED = /%(?:[01][0-9A-F]|7F|5C)/
      # Bytes of the longest path.
      LONGEST = 8 << 10
      private_constant :PLAIN, :ENCODED, :UNRESERVED, :DOT_SEGMENT, :REFUSED, :LONGEST

      class << self
        # @param env [Hash]
        # @return [String] the path as it came; "/" if it is empty
        def raw(env)
          script = env["SCRIPT_NAME"]
          path = env["PATH_INFO"].to_s
          path = "#{script}#{path}" unless script.nil? || script.empty?
          path.empty? ? "/" : path
        end

        # @param path [String]
        # @return [String, nil] nil: it has no normal form
        def normalize(path)
          return if path.bytesize > LONGEST
          path = Field.plain(path)
          return (path unless dots?(path)) if PLAIN.match?(path)
          return unless ENCODED.match?(path)
          path = path.gsub(/%[0-9A-Fa-f]{2}/) { |code| decode(code) }
          path unless REFUSED.match?(path) || dots?(path.gsub("%2F", "/"))
        end

        private

        def decode(code)
          character = code[1, 2].hex.chr
          UNRESERVED.match?(character) ? character : code.upcase
        end

        def dots?(path) = path.include?("/.") && DOT_SEGMENT.match?(path)
      end
    end
  end
end
