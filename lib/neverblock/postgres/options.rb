# frozen_string_literal: true

require_relative "option"

module NeverBlock
  class Postgres
    # Every option of PostgreSQL, each with its default, an example and its description: the source of what
    # {Postgres.new}, database.yml and URLs accept, and of the table in docs/postgres.md.
    #
    #   Options.default(:connections)             # => 12
    #   Options.complete({connections: 3})        # => {connections: 3, min_connections: 0, multiplex: :reads, …}
    #   Options.read({checkout_timeout: "3"})     # => {timeout: 3}
    # @api private
    module Options
      # @return [Hash{Symbol=>Option}] by their names in code
      ALL = {}

      def self.option(name, type, default, says, **more)
        ALL[name] = Option.new(name, type, default, says, **more)
      end
      private_class_method :option

      option :connections, ValueType.count(least: 1), 12, <<~TEXT, example: "20"
        Maximum number of real connections of this process. Leases always leave one of them to share, so use three or
        more.
      TEXT

      option :min_connections, ValueType.count, 0, <<~TEXT, example: "2"
        Number of connections that a thread opens, one at a time, and keeps. The first is opened after a random pause of
        up to half a second, each further one after ten times as long as the last took to open, at least 0.1 s, half of
        it random: so neither many starting processes nor a recovering server get all of them at once. If one can't be
        opened, a log line says so; the next attempt follows after 5 s, or as soon as a request has opened one. At most
        `connections`.
      TEXT

      option :multiplex, ValueType.multiplex, :reads, <<~TEXT, example: ":all", was: [:share, "0.3"]
        The statements that share connections: with `reads` reads, with `all` writes too, with `false` none.
      TEXT

      option :shareable_functions, ValueType.names, [].freeze, <<~TEXT, example: '["shop.price"]'
        Functions of your own, and of extensions, that neither write nor depend on the session. In a URL, separate them
        by commas.
      TEXT

      option :max_waiting, ValueType.count(least: 1), 20_000, <<~TEXT, example: "5000", was: [:backlog, "0.3"]
        Maximum number of statements and transactions that wait for a connection.
      TEXT

      option :timeout, ValueType.wait, 5, <<~TEXT, example: "10", key: :checkout_timeout, unset: "no limit"
        Seconds that a statement or transaction waits for a connection. A read that shares waits longer while others
        that share get places.
      TEXT

      option :query_timeout, ValueType.limit, nil, <<~TEXT, example: "5", unset: "no limit"
        Seconds that a statement may run: [below](#statements-that-take-too-long).
      TEXT

      option :max_age, ValueType.limit, nil, <<~TEXT, example: "3600", unset: "no limit"
        A connection of that age is closed while it is idle. If it is in use, it takes no further statements of
        others, and is closed when its statements, or its transaction or lease, have ended: nothing is interrupted, and
        a `LISTEN` goes on.
      TEXT

      option :idle_timeout, ValueType.limit, nil, <<~TEXT, example: "300", unset: "no limit", active_record: 300
        A connection that was idle for so many seconds is closed, the longest idle first, down to `min_connections`.
      TEXT

      option :keepalive, ValueType.limit(600), nil, <<~TEXT, example: "60", unset: "never", active_record: 600
        A connection that was silent for so many seconds gets `SELECT 1`, which keeps firewalls from dropping it. If
        there is no answer within 10 s, it is closed. Connections of transactions and leases are left alone.
      TEXT

      option :pool_jitter, ValueType.part, 0.2, <<~TEXT, example: "0.5"
        The random part of `max_age` and `keepalive`, for each connection: connections that were opened at once do not
        end at once.
      TEXT

      option :pgbouncer, ValueType.one_of(:transaction, :session).optional, nil, <<~TEXT, example: ":transaction"
        The pool mode of the [PgBouncer](#pgbouncer) behind the configuration's address.
      TEXT

      option :session_url, ValueType.target.optional, nil, <<~TEXT, example: '"postgresql://db.internal/shop"'
        The address of PostgreSQL itself, for statements that need a session, with `pgbouncer: transaction`.
      TEXT

      option :session_connections, ValueType.count(least: 1), 2, <<~TEXT, example: "4"
        Maximum number of connections to `session_url`, of this process, beside `connections`.
      TEXT

      option :audit, ValueType.flag, false, <<~TEXT, example: "true"
        Whether a connection is audited after each statement: for test suites ([below](#guard-and-audit)).
      TEXT

      option :audit_settings, ValueType.names, [].freeze, <<~TEXT, example: '["app.tenant"]'
        Custom settings that an audit reads; they are in no catalogue. In a URL, separate them by commas.
      TEXT

      usual = "the database's, with its host"
      option :name, ValueType.label.optional, nil, <<~TEXT, example: '"shop"', key: nil, unset: usual
        The pool's name in figures and metrics.
      TEXT

      warning = ->(line) { warn("NeverBlock: #{line}") }
      logging = "->(line) { LOGGER.warn(line) }"
      option :log, ValueType.log, warning, <<~TEXT, example: logging, key: nil, unset: "`$stderr`"
        Gets lines for the log. Lines of adapters go to Rails' log, or to `$stderr`.
      TEXT

      option :warm, ValueType.flag, true, <<~TEXT, example: "false", key: nil
        Whether `min_connections` are opened now, or with the first statement that runs in a loop, or in another thread
        than the main one. Adapters use the latter.
      TEXT

      ALL.freeze

      # Every option's.
      DEFAULTS = ALL.transform_values(&:default).freeze

      # Defaults that differ with Active Record.
      ACTIVE_RECORD = ALL.transform_values(&:active_record).compact.freeze

      # Options by their names in database.yml and in URLs.
      KEYS = ALL.values.select(&:key).to_h { |option| [option.key, option] }.freeze

      # Keys of libpq, Rails or Sequel with names that resemble ours.
      ELSEWHERE = %i[keepalives max_connections].freeze
      private_constant :ELSEWHERE

      @others = {}

      class << self
        # @param name [Symbol]
        # @return [Object] its default
        def default(name) = DEFAULTS.fetch(name)

        # @param options [Hash{Symbol=>Object}] from code
        # @return [Hash{Symbol=>Object}] all options, checked
        # @raise [ConfigurationError] for an unknown option, a value that can't be, or two that can't be together
        def complete(options)
          agree({**DEFAULTS, **options.to_h { |name, value| [name, (ALL[name] || unknown(name, value)).take(value)] }})
        end

        # @param config [Hash{Symbol=>Object}] of database.yml, or of a URL, with whatever else is in it
        # @return [Hash{Symbol=>Object}] the options in it, checked
        # @raise [ConfigurationError] for a misspelt option, a value that can't be, or two that can't be together
        def read(config)
          options = {}
          config.each do |key, value|
            option = KEYS[key]
            option ? options[option.name] = option.read(value) : misspelt(key, value)
          end
          agree(options)
        end

        private

        def agree(options)
          names = %i[connections min_connections pgbouncer session_url audit]
          connections, least, pgbouncer, session_url, audit = names.map { |name| options.fetch(name) { default(name) } }
          if least > connections
            refuse("min_connections: #{least} is more than connections: #{connections}. Raise that, or lower this")
          end
          if session_url && pgbouncer != :transaction
            refuse("session_url: #{session_url.inspect} is for pgbouncer: :transaction, and that is " \
              "#{pgbouncer.inspect}: say so if the other URL leads to a PgBouncer, or leave session_url: out")
          end
          if audit && pgbouncer == :transaction
            refuse("audit: true reads session state, and with pgbouncer: :transaction sessions are not ours. " \
              "Leave audit: out")
          end
          options
        end

        def unknown(name, value)
          meant = KEYS[name] || ALL[near(name, ALL)]
          remedy = "There are #{ALL.keys.map { |one| "#{one}:" }.join(", ")}"
          remedy = "Did you mean #{meant.name}:? For example: #{meant.example}" if meant
          refuse("#{name}: #{value.inspect} is not an option. #{remedy}")
        end

        # Most of what is in a configuration is for others. Each new adapter asks, so a name is compared once.
        def misspelt(key, value)
          return if @others.key?(key)
          meant = KEYS[near(key, KEYS)] unless ELSEWHERE.include?(key)
          if meant
            refuse("#{key}: #{value.inspect} is not an option. Did you mean #{meant.key}:? For example: #{meant.yaml}")
          end
          @others[key] = true
        end

        def near(name, names)
          return unless defined?(DidYouMean::Levenshtein)
          names.keys.find { |one| DidYouMean::Levenshtein.distance(one.name, name.to_s) <= [one.size / 4, 2].min }
        end

        def refuse(reason) = raise(ConfigurationError, "PostgreSQL's configuration: #{reason}")
      end
    end
  end
end
