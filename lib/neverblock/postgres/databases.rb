# frozen_string_literal: true

require_relative "deprecated_options"

module NeverBlock
  class Postgres
    # Has one {Postgres} for each configuration in the process: adapters of all threads and loops share its connections.
    #
    #   database = Databases.for(parameters, {connections: 12}) { PG.connect(**parameters) }
    #   database.connection   # => VirtualConnection
    # @api private
    module Databases
      # Options in seconds that {describe} shows if they are set.
      LIMITS = %i[max_age idle_timeout keepalive query_timeout].freeze
      private_constant :LIMITS

      @all = {}
      @lock = Thread::Mutex.new
      @log = nil

      class << self
        # @param parameters [Hash] of libpq
        # @param config [Hash{Symbol=>Object}] of database.yml, or of a URL, in which all values are text
        # @param defaults [Hash{Symbol=>Numeric}] the adapter's, for limits that neither the configuration nor an
        #   earlier adapter has set
        # @param by [Object] equal for callers with equivalent blocks
        # @yieldreturn [PG::Connection] a new one
        # @return [Postgres]
        def for(parameters, config, defaults = {}, by: nil, &connect)
          options = options(config)
          database = @lock.synchronize do
            @all[[parameters, options, by]] ||=
              Postgres.new(telling(connect), name: Roster.name_of(parameters), log: method(:tell), warm: false,
                **options)
          end
          database.default(defaults) unless defaults.empty?
          database
        end

        # @param log [#call] gets lines for the log with :info or :warn; nil: warnings go to $stderr
        attr_writer :log

        # @param config [Hash{Symbol=>Object}] as for {#for}
        # @return [String] the options in force, for the log
        # @raise [ConfigurationError] for an invalid value
        def describe(config)
          options = options(config)
          multiplex = options[:multiplex]
          connections = options.fetch(:connections, Options.default(:connections))
          singly = " (which sends each statement by itself; version 17 or later sends many in a packet)"
          limits = LIMITS.select { |name| options[name]&.positive? && options[name].finite? }
          "#{connections} connections of this process, " \
            "multiplex: #{multiplex}#{", pipelined" if multiplex} by libpq " \
            "#{version(PG.library_version)}#{singly unless Wire::COALESCES}" \
            "#{", pgbouncer: #{options[:pgbouncer]}" if options[:pgbouncer]}" \
            "#{limits.map { |name| ", #{name}: #{options[name]} s" }.join}" \
            "#{", min_connections: #{options[:min_connections]}" if options[:min_connections]}"
        end

        private

        # Logs the first connection.
        def telling(connect)
          told = false
          lambda do
            pg = connect.call
            unless told
              tell("connected to PostgreSQL #{version(pg.server_version)}, database #{pg.db}, user #{pg.user}, at " \
                "#{pg.host}:#{pg.port}", :info)
            end
            told = true
            pg
          end
        end

        def tell(line, level = :warn)
          return @log.call(line, level) if @log
          warn("NeverBlock: #{line}") if level == :warn
        end

        # @param number [Integer] such as 170002
        # @return [String] such as "17.2"
        def version(number) = number.divmod(10_000).join(".")

        def options(config)
          config = DeprecatedOptions.rename(config.compact) { |line| tell(line) }
          {multiplex: Options.default(:multiplex), **Options.read(config)}
        end
      end
    end
  end
end
