# frozen_string_literal: true

module NeverBlock
  class Cache
    class Traffic
      # One URL: when a cache would have stored its responses, and how often it was asked.
      #
      #   page = Page.new("/report", weight: 1)
      #   page.store(nil, 1000.0, 60)
      #   page.since(nil, 1030.0)    # => 1000.0
      #   page.since(nil, 1090.0)    # => nil
      # @api private
      class Page
        # Characters of a URL that are kept for the report.
        LONGEST = 200
        # Variants besides the first one.
        MOST_VARIANTS = 7
        private_constant :LONGEST, :MOST_VARIANTS

        # @return [String] its beginning
        attr_reader :url
        # @return [Integer] number of URLs that it stands for in a sample
        attr_accessor :weight
        # @return [Integer] GETs; those that repeat; those of them that the same client repeats; those that would, if
        #   their response were for everybody
        attr_accessor :gets, :repeats, :same_client, :refused
        # @return [Symbol, nil] why the last response that was not for everybody was not
        attr_accessor :reason

        # @param url [String]
        # @param weight [Integer]
        def initialize(url, weight:)
          @url = (url.bytesize > LONGEST) ? "#{url.byteslice(0, LONGEST)}..." : url
          @weight = weight
          @gets = @repeats = @same_client = @refused = 0
          @variant = @since = @until = @asked = @others = @reason = nil
        end

        # @param variant [Object, nil]
        # @param at [Float]
        # @return [Float, nil] when the response that a cache would use was stored; nil: it would have none
        def since(variant, at)
          return (@since if fresh?(@since, @until, at)) if @since.nil? || @variant == variant
          since, ends = @others && @others[variant]
          since if fresh?(since, ends, at)
        end

        # @param variant [Object, nil]
        # @param at [Float]
        # @param lifetime [Numeric]
        # @return [void]
        def store(variant, at, lifetime)
          if @since.nil? || @variant == variant
            @variant, @since, @until = variant, at, at + lifetime
          else
            @others ||= {}
            @others.delete(variant)
            @others[variant] = [at, at + lifetime]
            @others.shift if @others.size > MOST_VARIANTS
          end
        end

        # @param at [Float]
        # @param window [Numeric]
        # @return [Boolean] whether it was asked within the window, by a request that itself was not within that of an
        #   earlier one
        def asked?(at, window)
          return true if @asked && (at - @asked).abs < window
          @asked = at
          false
        end

        # All responses have become invalid.
        # @return [void]
        def forget = @since = @until = @asked = @others = nil

        # @param at [Float]
        # @param window [Numeric] seconds that requests without a response for everybody count
        # @return [Boolean] whether it can be dropped: no later request would repeat
        def over?(at, window)
          !fresh?(@since, @until, at) && (@asked.nil? || at - @asked >= window) &&
            (@others.nil? || @others.none? { |_, (since, ends)| fresh?(since, ends, at) })
        end

        # @return [Integer] requests that a cache would answer, or would if they were for everybody
        def gain = [@repeats, @refused].max

        private

        # Lines of a log are nearly in order.
        def fresh?(since, ends, at) = !since.nil? && at < ends && since - at < ends - since
      end
    end
  end
end
