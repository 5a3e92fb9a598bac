# frozen_string_literal: true

module NeverBlock
  class Proxy
    # All proxies of this Ractor: the source `:proxy` of {NeverBlock.stats}. They are held weakly.
    #
    #   NeverBlock.stats[:proxy]    # => {"http://127.0.0.1:3000" => {in_flight: 3, …}}
    # @api private
    module Registry
      class << self
        # @param proxy [Proxy]
        # @return [void]
        def add(proxy)
          proxies[proxy] = true
        end

        # @return [Hash{String=>Hash}] by the upstreams' addresses; of several proxies of one upstream the latest
        def stats = proxies.keys.map(&:stats).reduce({}, :merge)

        private

        def proxies
          Ractor.current[:neverblock_proxies] ||= begin
            Stats.register(:proxy, self)
            ObjectSpace::WeakMap.new
          end
        end
      end
    end
  end
end
