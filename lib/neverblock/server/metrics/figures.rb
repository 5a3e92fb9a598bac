# frozen_string_literal: true

module NeverBlock
  class Server
    class Metrics
      # Names the figures of one kind of source. They come from workers, so nothing of the source itself is needed here.
      #
      #   figures = Figures.new("upstream", :retries, [["requests_total", :counter, "Requests …", [:requests]]])
      #   figures.known?({"http://a:1": {requests: {"2xx": 9}, retries: 0}})    # => true
      #   figures.each({requests: {"2xx": 9}}) { |name, type, help, value, labels| … }
      #   # "upstream_requests_total", :counter, "Requests …", 9, {outcome: :"2xx"}
      # @api private
      class Figures
        # @param prefix [String] of the names
        # @param mark [Symbol] a key that only figures of this kind have
        # @param rows [Array<Array>] name, type, help, the keys that lead to the figure. A Hash is figures by outcome
        def initialize(prefix, mark, rows)
          @mark = mark
          @rows = rows.map { |name, *more| ["#{prefix}_#{name}", *more].freeze }.freeze
          freeze
        end

        # @param sources [Object] what is registered under the name of this kind
        # @return [Boolean] whether they are ours, and not those of another source with that name
        def known?(sources)
          sources.is_a?(Hash) && sources.each_value.all? { |one| one.is_a?(Hash) && one.key?(@mark) }
        end

        # @return [Array<Array<Symbol>>] the keys that lead to each figure
        def paths = @rows.map(&:last)

        # @param figures [Hash{Symbol=>Object}] of one source
        # @yieldparam name [String]
        # @yieldparam type [Symbol]
        # @yieldparam help [String]
        # @yieldparam value [Numeric]
        # @yieldparam labels [Hash{Symbol=>Object}]
        # @return [void]
        def each(figures)
          @rows.each do |name, type, help, path|
            figure = figures.dig(*path)
            case figure
            when Hash then figure.each { |outcome, count| yield name, type, help, count, {outcome:} }
            when true, false then yield name, type, help, figure ? 1 : 0, {}
            when Numeric then yield name, type, help, figure, {}
            end
          end
        end
      end
    end
  end
end
