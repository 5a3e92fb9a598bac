# frozen_string_literal: true

require_relative "field"

module NeverBlock
  class Cache
    # What the cache has done for a response: the Cache-Status field, RFC 9211.
    #
    #   CacheStatus.new(hit: true, ttl: 30).to_s                       # => "NeverBlock; hit; ttl=30"
    #   CacheStatus.new(fwd: :uri_miss, stored: true).to_s             # => "NeverBlock; fwd=uri-miss; stored"
    #   CacheStatus.append({"cache-status" => "Origin; hit"}, fwd: :stale)
    #     # => {"cache-status" => "Origin; hit, NeverBlock; fwd=stale"}
    #
    # `key` and `detail` tell an attacker how the cache works: they are for trusted clients only (§6).
    # @api private
    class CacheStatus
      NAME = "NeverBlock"
      FIELD = "cache-status"
      FORWARDS = {
        bypass: "bypass", method: "method", uri_miss: "uri-miss", vary_miss: "vary-miss", miss: "miss",
        request: "request", stale: "stale", partial: "partial"
      }.freeze
      TOKEN = %r{\A[A-Za-z*][!%&'*+.^_`|~:/#0-9A-Za-z$-]*\z}
      # The parts of a member of a list, without its commas.
      MEMBER = /(?:[^",]++|"(?:[^"\\]++|\\.)*+")++/m
      LIST = /\A(?:#{MEMBER}|,)*+\z/
      MOST_INTEGER = 999_999_999_999_999
      # Characters of the longest text, and bytes of the longest list of other caches that is kept.
      LONGEST_TEXT = 1024
      LONGEST_LIST = 4 << 10
      private_constant :FORWARDS, :TOKEN, :MEMBER, :LIST, :MOST_INTEGER, :LONGEST_TEXT, :LONGEST_LIST

      # Appends a member to the list of a response.
      # @param headers [Hash] is changed
      # @param name [String] the cache's
      # @param parameters [Hash] see {#initialize}
      # @return [Hash] headers
      def self.append(headers, name = NAME, **parameters) = new(name, **parameters).append(headers)

      # @param value [String, Array<String>] a field's value
      # @return [String, nil] without the members of caches of this name; nil: nothing is left, or it is not a list
      def self.without_own(value, name = NAME)
        text = Field.text(value)
        return if text.nil? || text.bytesize > LONGEST_LIST || Field::CONTROL.match?(text) || !LIST.match?(text)
        own = /\A"?#{Regexp.escape(name)}"?\s*(?:;|\z)/
        members = text.scan(MEMBER).map { |member| Field.trim(member) }
        kept = members.reject { |member| member.empty? || own.match?(member) }
        kept.join(", ") unless kept.empty?
      end

      # @return [Numeric, nil] seconds
      attr_writer :ttl
      # @return [Boolean, nil]
      attr_writer :stored, :collapsed
      # @return [String, nil]
      attr_writer :key
      # @return [String, Symbol, nil]
      attr_writer :detail

      # @param name [String] the cache's
      # @param hit [Boolean, nil] whether the response is a stored one, and the app was not asked
      # @param fwd [Symbol, nil] why the app was asked: :uri_miss, :vary_miss, :miss, :stale, :request, :method,
      #   :partial or :bypass
      # @param fwd_status [Integer, nil] the status of the app's response
      # @param ttl [Numeric, nil] seconds that the response stays fresh; negative: stale for so long
      # @param stored [Boolean, nil]
      # @param collapsed [Boolean, nil] whether the request has waited for that of another client; false: in vain
      # @param key [String, nil]
      # @param detail [String, Symbol, nil]
      # @raise [ArgumentError] if `hit` and `fwd` are both given (RFC 9211 §2.1), or `fwd` is unknown
      def initialize(name = NAME, hit: nil, fwd: nil, fwd_status: nil, ttl: nil, stored: nil, collapsed: nil, key: nil,
        detail: nil)
        raise ArgumentError, "hit: and fwd: #{fwd.inspect} exclude each other. Give one of them" if hit && fwd
        @name = name
        @hit = hit
        @fwd = fwd && FORWARDS.fetch(fwd) do
          raise ArgumentError, "fwd: #{fwd.inspect} is not one of #{FORWARDS.keys.map(&:inspect).join(", ")}"
        end
        @fwd_status = fwd_status
        @ttl = ttl
        @stored = stored
        @collapsed = collapsed
        @key = key
        @detail = detail
      end

      # @return [String] a member of a list (RFC 9651 §4.1)
      def to_s
        text = word(@name).dup
        boolean(text, "hit", @hit)
        text << "; fwd=" << @fwd if @fwd
        integer(text, "fwd-status", @fwd_status)
        integer(text, "ttl", @ttl)
        boolean(text, "stored", @stored)
        boolean(text, "collapsed", @collapsed)
        text << "; key=" << quoted(@key) if @key
        text << "; detail=" << word(@detail) if @detail
        text
      end

      # Appends it to the list of a response. A list that is too long or not printable is replaced.
      # @param headers [Hash] is changed
      # @return [Hash] headers
      def append(headers)
        list = Field.text(headers[FIELD])
        keep = list && !Field.trim(list).empty? && list.bytesize <= LONGEST_LIST && !Field::CONTROL.match?(list)
        headers[FIELD] = keep ? "#{list}, #{self}" : to_s
        headers
      end

      private

      def boolean(text, name, value)
        text << "; " << name unless value.nil?
        text << "=?0" if value == false
      end

      def integer(text, name, value)
        text << "; " << name << "=" << value.floor.clamp(-MOST_INTEGER, MOST_INTEGER).to_s if value
      end

      # A token is shorter than a string. Both are allowed for names and details (§2, §2.8).
      def word(value)
        value = Field.plain(value.to_s)
        (TOKEN.match?(value) && value.size <= LONGEST_TEXT) ? value : quoted(value)
      end

      # Structured strings are printable ASCII (RFC 9651 §3.3.3): other bytes are dropped.
      def quoted(value)
        text = Field.plain(value.to_s)[0, LONGEST_TEXT].gsub(/[^ -~]/, "")
        "\"#{text.gsub(/["\\]/) { |character| "\\#{character}" }}\""
      end
    end
  end
end
