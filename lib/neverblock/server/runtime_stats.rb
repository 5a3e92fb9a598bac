# frozen_string_literal: true

module NeverBlock
  class Server
    # NeverBlock.stats of this process, reduced to what JSON can hold. A source that raises an error is left out, and
    # named once in the error log, so that it does not end the task that reports the server's state.
    #
    #   RuntimeStats.new(error_log).read   # => {loops: [{engine: "epoll", tasks: 3, …}], pools: {…}, tasks: {…}}
    # @api private
    class RuntimeStats
      # @param error_log [ErrorLog]
      def initialize(error_log)
        @error_log = error_log
        @named = Set.new
      end

      # @return [Hash{Symbol=>Object}] of Hashes, Arrays, Strings, finite numbers, true, false and nil
      def read
        plain(Stats.read { |name, error| tell(name, error) if @named.add?(name) })
      end

      private

      def tell(name, error)
        @error_log.error("NeverBlock.stats: the source #{name.inspect} is left out, since it raised #{error.class}: " \
          "#{error.message}")
      end

      def plain(value)
        case value
        when Hash then value.to_h { |key, inner| [key.to_sym, plain(inner)] }
        when Array then value.map { |inner| plain(inner) }
        when Integer, nil, true, false then value
        when Float then value.finite? ? value : nil
        else value.to_s
        end
      end
    end
  end
end
