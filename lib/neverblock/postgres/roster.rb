# frozen_string_literal: true

require_relative "../runtime/unique_names"

module NeverBlock
  class Postgres
    # The open pools of this process by unique names: the source `:postgres` of {NeverBlock.stats}. References are weak.
    #
    #   Roster.join(multiplexer, "shop@db") { |name| … }   # "shop@db", or "shop@db (2)" if that is taken
    #   NeverBlock.stats[:postgres]                        # => {"shop@db" => {size: 12, connections: 9, …}}
    # @api private
    module Roster
      # Holders and shapes that the figures of all pools contain: a worker sends them to its supervisor each second.
      MAX_DETAILS = 100
      private_constant :MAX_DETAILS

      @pools = ObjectSpace::WeakMap.new
      @names = UniqueNames.new(&:closed?)
      @lock = Thread::Mutex.new

      class << self
        # @param pool [#name, #closed?, #stats]
        # @param wanted [String]
        # @yieldparam name [String] a unique one, which is the pool's from now on
        # @return [void]
        def join(pool, wanted)
          wanted = Excerpt.of(wanted)
          @lock.synchronize do
            yield @names.take(wanted, pool)
            @pools[pool] = true
          end
        end

        # @return [Hash{String=>Hash}] the {Snapshot} of each pool, with at most {MAX_DETAILS} holders and shapes
        def stats
          left = MAX_DETAILS
          open.sort_by(&:name).to_h do |pool|
            stats = pool.stats
            holders, shapes = stats[:holders].first(left), stats[:slow][:shapes].first(left)
            left -= [holders.size, shapes.size].max
            [pool.name, {**stats, holders:, slow: {**stats[:slow], shapes:}}]
          end
        end

        # A name for a pool: its database and host, without secrets.
        # @param target [String, Hash, Object] as PG.connect takes it
        # @return [String] such as "shop@db.internal"
        def name_of(target)
          given = {**PG::Connection.conndefaults_hash, **given(target)}
          host, port = given[:host].to_s, given[:port].to_s
          at = "@#{host}" unless host.empty? || host.start_with?("/")
          at = "#{at}:#{port}" unless port.empty? || port == "5432"
          "#{given[:dbname] || given[:user] || "postgres"}#{at}"
        end

        private

        def open = @pools.keys.reject(&:closed?)

        def given(target)
          case target
          when Hash
            given = target.transform_keys(&:to_sym).compact
            # libpq accepts a URL there.
            return given unless /[=:]/.match?(given[:dbname].to_s) && given[:dbname].is_a?(String)
            {**given.except(:dbname), **given(given[:dbname])}
          when String
            options = PG::Connection.conninfo_parse(target)
            options.filter_map { |option| [option[:keyword].to_sym, option[:val]] if option[:val] }.to_h
          else {dbname: "postgres"} # unknown: a callable connects
          end
        rescue PG::Error
          {dbname: "postgres"} # connecting will raise for it
        end
      end

      Stats.register(:postgres, self)
    end
  end
end
