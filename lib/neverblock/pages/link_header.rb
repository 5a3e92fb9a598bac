# frozen_string_literal: true

module NeverBlock
  module Pages
    # The Link header of a response (RFC 8288).
    #
    #   LinkHeader.append(headers, next: "https://example.org/users/pages/3")
    #   headers["link"]    # => '<https://example.org/users/pages/3>; rel="next"'
    # @api private
    module LinkHeader
      # A URL of Rails' routes has none of these.
      OUTSIDE = /[<>"\s]/
      # Bytes. A long query is in each URL, and proxies refuse responses with large headers (nginx: 4 KiB for all).
      MOST = 2048
      # What is left out first comes last.
      RANKS = %i[next prev first last].freeze
      private_constant :OUTSIDE, :MOST, :RANKS

      # Without the links that would make the header longer than 2 KiB.
      # @param headers [Hash] of the response; what they have stays
      # @param links [Hash{Symbol=>String}] URLs by their relation
      # @return [void]
      def self.append(headers, links)
        added = fitting(links.reject { |_, url| OUTSIDE.match?(url) })
        return if added.empty?
        headers["link"] = [*headers["link"], *added].reject(&:empty?).join(", ")
      end

      # @return [Array<String>] in the order of `links`
      def self.fitting(links)
        texts = links.to_h { |relation, url| [relation, "<#{url}>; rel=\"#{relation}\""] }
        room = MOST
        kept = RANKS.select { |relation| texts.key?(relation) && (room -= texts[relation].bytesize + 2) >= 0 }
        texts.slice(*(texts.keys & kept)).values
      end
      private_class_method :fitting
    end
  end
end
