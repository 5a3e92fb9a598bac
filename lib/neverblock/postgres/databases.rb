# frozen_string_literal: true

require_relative "deprecated_options"

module NeverBlock
  class Postgres
    # Has one {Postgres} for each configuration in the process: the adapters of all threads and loops share its connections.
    #
    #   database = Databases.for(parameters, {connections: 12}) { PG.connect(**parameters) }
    #   database.connection   # => VirtualConnection
    # @api private
    module Databases
      # Our keys in database.yml and in Sequel's options.
      OPTIONS = %i[connections max_waiting multiplex shareable_functions audit audit_settings pgbouncer session_url session_connections
        max_age idle_timeout keepalive min_connections pool_jitter query_timeout].push(*DeprecatedOptions::NAMES.keys).freeze

      # Options in seconds; 0 and false mean no limit.
      LIMITS = %i[max_age idle_timeout keepalive query_timeout].freeze

      # Defaults of Active Record 8.1. Its `keepalive` is also the meaning of `keepalive: true`.
      ACTIVE_RECORD = {idle_timeout: 300, keepalive: 600}.freeze

      # Options that are lists; in a URL they have commas.
      LISTS = %i[shareable_functions audit_settings].freeze
      private_constant :LIMITS, :LISTS

      @all = {}
      @lock = Thread::Mutex.new
      @log = nil

      class << self
        # @param parameters [Hash] of libpq
        # @param config [Hash{Symbol=>Object}] of database.yml, or of a URL, in which all values are text
        # @param defaults [Hash{Symbol=>Numeric}] the adapter's, for limits that neither the configuration nor an earlier adapter has set
        # @param by [Object] equal for callers with equivalent blocks
        # @yieldreturn [PG::Connection] a new one
        # @return [Postgres]
        def for(parameters, config, defaults = {}, by: nil, &connect)
          options = options(config)
          database = @lock.synchronize { @all[[parameters, options, by]] ||= Postgres.new(telling(connect), name: Roster.name_of(parameters), log: method(:tell), warm: false, **options) }
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
          "#{options.fetch(:connections, CONNECTIONS)} connections of this process, multiplex: #{multiplex}#{", pipelined" if multiplex} by libpq " \
            "#{version(PG.library_version)}#{" (which sends each statement by itself; version 17 or later sends many in a packet)" unless Wire::COALESCES}" \
            "#{", pgbouncer: #{options[:pgbouncer]}" if options[:pgbouncer]}" \
            "#{LIMITS.filter_map { |name| ", #{name}: #{options[name].to_s.delete_suffix(".0")} s" if options[name]&.finite? }.join}" \
            "#{", min_connections: #{options[:min_connections]}" if options[:min_connections]}"
        end

        private

        # Logs the first connection.
        def telling(connect)
          told = false
          lambda do
            pg = connect.call
            tell("connected to PostgreSQL #{version(pg.server_version)}, database #{pg.db}, user #{pg.user}, at #{pg.host}:#{pg.port}", :info) unless told
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
          options = DeprecatedOptions.rename(config.slice(*OPTIONS).compact) { |line| tell(line) }
          %i[connections max_waiting session_connections].each { |name| options[name] = whole(name, options[name]) if options.key?(name) }
          options[:min_connections] = least(options[:min_connections], options.fetch(:connections, CONNECTIONS)) if options.key?(:min_connections)
          options[:pool_jitter] = part(options[:pool_jitter]) if options.key?(:pool_jitter)
          LIMITS.each { |name| options[name] = seconds(name, options[name]) if options.key?(name) }
          options[:pgbouncer] = mode(options[:pgbouncer]) if options.key?(:pgbouncer)
          options[:multiplex] = multiplex(options.fetch(:multiplex, :reads))
          options[:audit] = truth("audit", options[:audit]) if options.key?(:audit)
          LISTS.each { |name| options[name] = options[name].split(",").map(&:strip) if options[name].is_a?(String) }
          options[:timeout] = Float(config[:checkout_timeout]) if config[:checkout_timeout]
          options
        end

        def whole(name, value)
          Integer(value, exception: false)&.then { |number| return number if number > 0 }
          raise ConfigurationError, "PostgreSQL's configuration: #{name}: #{value.inspect} must be a positive integer"
        end

        def least(value, most)
          number = Integer(value, exception: false)
          return number if number&.between?(0, most)
          raise ConfigurationError, "PostgreSQL's configuration: min_connections: #{value.inspect} must be an integer from 0 to #{most}, the value of connections:"
        end

        def part(value)
          number = Float(value, exception: false)
          return number if number&.between?(0, 1)
          raise ConfigurationError, "PostgreSQL's configuration: pool_jitter: #{value.inspect} must be a number from 0 to 1"
        end

        # @return [Float] infinite for no limit: that was given, so no default takes its place
        def seconds(name, value)
          value = {true => ACTIVE_RECORD[:keepalive], "true" => ACTIVE_RECORD[:keepalive]}.fetch(value, value) if name == :keepalive
          number = [false, "false"].include?(value) ? 0.0 : Float(value, exception: false)
          raise ConfigurationError, "PostgreSQL's configuration: #{name}: #{value.inspect} must be a number of seconds, or 0 for no limit" unless number && number >= 0
          number.zero? ? Float::INFINITY : number
        end

        def mode(value)
          name = value.to_s
          return name.to_sym if %w[transaction session].include?(name)
          raise ConfigurationError, "PostgreSQL's configuration: pgbouncer: #{value.inspect} must be transaction or session, PgBouncer's pool mode"
        end

        def truth(name, value)
          case value
          when nil, true, false then value
          when "true" then true
          when "false" then false
          else raise ConfigurationError, "PostgreSQL's configuration: #{name}: #{value.inspect} must be true or false"
          end
        end

        # `true` is not `false`: the default.
        def multiplex(value)
          case value.to_s
          when "true", "reads" then :reads
          when "all" then :all
          when "false" then false
          else raise ConfigurationError, "PostgreSQL's configuration: multiplex: #{value.inspect} must be reads, all or false"
          end
        end
      end
    end
  end
end
