# frozen_string_literal: true

module NeverBlock
  class Cache
    class Traffic
      # The sums of a {Traffic}.
      #
      #   tally = Tally.new
      #   tally.request(1000.0)
      #   tally.get(true, false, 512, nil)
      #   tally.repeat(:shared, 1, 512)
      # @api private
      class Tally
        # Reasons that are kept apart; further ones are :other.
        MOST_REASONS = 50
        private_constant :MOST_REASONS

        # @return [Integer] GETs whose response can be cached as far as the status tells
        attr_reader :estimated

        def initialize
          @requests = @gets = @shared = @private = @estimated = 0
          @repeats = {shared: 0, private: 0, same_client: 0}
          @saved = {shared: 0, private: 0, same_client: 0}
          @bytes = @sized = 0
          @reasons = {}
          @from = @to = nil
        end

        # @param at [Float] 0: unknown
        # @return [void]
        def request(at)
          @requests += 1
          return unless at > 0 # unknown
          @from = at if @from.nil? || at < @from
          @to = at if @to.nil? || at > @to
        end

        # @param cacheable [Boolean, :private]
        # @param estimated [Boolean]
        # @param bytes [Integer, nil]
        # @param reason [Symbol, nil]
        # @return [void]
        def get(cacheable, estimated, bytes, reason)
          @gets += 1
          case cacheable
          when true then @shared += 1
          when :private then @private += 1
          end
          @estimated += 1 if estimated
          row(reason)[0] += 1 if reason
          return unless bytes
          @bytes += bytes
          @sized += 1
        end

        # @param reason [Symbol] why a GET's response is not for everybody; it would repeat if it were
        # @param weight [Integer]
        # @return [void]
        def refused(reason, weight) = row(reason)[1] += weight

        # @param kind [:shared, :private, :same_client]
        # @param weight [Integer]
        # @param bytes [Integer, nil]
        # @return [void]
        def repeat(kind, weight, bytes)
          @repeats[kind] += weight
          @saved[kind] += weight * bytes if bytes
        end

        # @param pages [Array<Page>]
        # @param options [Hash] further values of {Report}
        # @return [Report]
        def report(pages:, **options)
          shared = [@repeats[:shared], @shared].min
          private = [@repeats[:private], @private].min
          Report.new(requests: @requests, gets: @gets, shared: @shared, browser_only: @private, estimated: @estimated,
            shared_repeats: shared, repeats: shared + private,
            same_client: [@repeats[:same_client], shared].min + private,
            bytes: sizes, reasons:, urls: best(pages, :repeats), refused_urls: best(pages, :refused),
            from: @from, to: @to, **options)
        end

        private

        def row(reason)
          reason = :other if !@reasons.key?(reason) && @reasons.size >= MOST_REASONS
          @reasons[reason] ||= [0, 0]
        end

        # @return [Hash, nil] nil: no size is known
        def sizes
          return if @sized.zero?
          shared, same = @saved[:shared], @saved[:same_client] + @saved[:private]
          {gets: @bytes, known: @sized, shared_cache: [shared, @bytes].min, browsers: [same, @bytes].min}
        end

        def reasons
          rows = @reasons.map { |reason, (gets, repeats)| {reason:, gets:, repeats: [repeats, gets].min} }
          rows.sort_by { |row| [-row[:repeats], -row[:gets], row[:reason].name] }
        end

        def best(pages, kind)
          pages = pages.select { |page| page.public_send(kind) > 0 }
          pages.min_by(Report::MOST_URLS) { |page| [-page.public_send(kind), page.url.b] }.map do |page|
            {url: page.url, gets: page.gets, repeats: page.public_send(kind), same_client: page.same_client,
             reason: (page.reason if kind == :refused)}.compact
          end
        end
      end
    end
  end
end
