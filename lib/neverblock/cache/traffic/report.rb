# frozen_string_literal: true

require_relative "table"

module NeverBlock
  class Cache
    class Traffic
      # What a {Traffic} has counted.
      #
      #   report = traffic.report
      #   report.cacheable_percent      # => 77.8
      #   puts report                   # tables for people
      #   JSON.generate(report.to_h)    # for programs
      #
      # If {#sampled?}, the numbers of repeats are estimates; those of requests and GETs are exact.
      class Report
        # URLs in a list.
        MOST_URLS = 10

        # @return [Integer] requests of all methods
        attr_reader :requests
        # @return [Integer]
        attr_reader :gets
        # @return [Integer] GETs whose response a shared cache may have
        attr_reader :shared
        # @return [Integer] GETs whose response only the client's own cache may have
        attr_reader :browser_only
        # @return [Integer] GETs that count as cacheable by their status alone
        attr_reader :estimated
        # @return [Integer] GETs that repeat one that can be cached
        attr_reader :repeats
        # @return [Integer] those of them that a shared cache would answer
        attr_reader :shared_repeats
        # @return [Integer] those of {#repeats} that the same client repeats
        attr_reader :same_client
        # @return [Hash{Symbol=>Integer}, nil] `:gets`, bytes of all GETs whose size is known; `:known`, how many these
        #   are; `:shared_cache` and `:browsers`, bytes that these would have saved the app; nil: no size is known
        attr_reader :bytes
        # @return [Array<Hash>] `:reason` why responses are not for everybody, `:gets`, and `:repeats`: those that
        #   would repeat if they were
        attr_reader :reasons
        # @return [Array<Hash>] the URLs that would gain most: `:url`, `:gets`, `:repeats`, `:same_client`
        attr_reader :urls
        # @return [Array<Hash>] the URLs that repeat most though their response is not for everybody: `:url`, `:gets`,
        #   `:repeats`, `:same_client`, `:reason`
        attr_reader :refused_urls
        # @return [Float, nil] seconds since 1970 of the first request and of the last one; nil: there was none
        attr_reader :from, :to
        # @return [Numeric] seconds that a response counts as usable where it does not say itself
        attr_reader :window
        # @return [Array<String>] what the figures do not tell
        attr_reader :notes

        # @api private
        def initialize(requests:, gets:, shared:, browser_only:, estimated:, repeats:, shared_repeats:, same_client:,
          bytes:, reasons:, urls:, refused_urls:, from:, to:, window:, notes:, sampled:)
          @requests = requests
          @gets = gets
          @shared = shared
          @browser_only = browser_only
          @estimated = estimated
          @repeats = repeats
          @shared_repeats = shared_repeats
          @same_client = same_client
          @bytes = bytes
          @reasons = reasons
          @urls = urls
          @refused_urls = refused_urls
          @from = from
          @to = to
          @window = window
          @notes = notes
          @sampled = sampled
        end

        # @return [Boolean] whether numbers of repeats are estimates
        def sampled? = @sampled

        # @return [Integer] GETs whose response can be cached, by a shared cache or by the client
        def cacheable = shared + browser_only

        # @return [Float, nil] of all GETs; nil: there is none
        def cacheable_percent = percent(cacheable, gets)

        # @return [Float, nil] of those that can be cached
        def repeat_percent = percent(repeats, cacheable)

        # @return [Float, nil] of those that repeat
        def same_client_percent = percent(same_client, repeats)

        # @param part [Integer]
        # @param whole [Integer]
        # @return [Float, nil] with one digit after the point; nil: there is no whole
        def percent(part, whole) = ((part * 100.0 / whole).round(1) if whole > 0)

        # @return [Hash{Symbol=>Object}] of numbers, texts, lists and hashes
        def to_h
          {requests:, gets:, cacheable:, repeats:, same_client:,
           cacheable_percent:, repeat_percent:, same_client_percent:,
           shared:, browser_only:, shared_repeats:, estimated:, sampled: sampled?, bytes:,
           reasons: reasons.map { |row| {**row, reason: row[:reason].name} },
           urls: urls.map { |row| shown(row) }, refused_urls: refused_urls.map { |row| shown(row) },
           from:, to:, window:, notes:}
        end

        # @return [String] several lines
        def to_s = Table.new(self).to_s

        private

        # JSON has no other bytes.
        def shown(row) = {**row, url: Text.printable(row[:url]), reason: row[:reason]&.name}.compact
      end
    end
  end
end
