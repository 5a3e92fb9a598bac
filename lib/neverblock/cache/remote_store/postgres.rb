# frozen_string_literal: true

require "securerandom"

module NeverBlock
  class Cache
    class RemoteStore
      # The client of PostgreSQL: an unlogged table, which is made when it is missed. It survives a restart of the
      # server, and is empty after a crash.
      #
      #   Postgres.new(url: "postgresql:///shop", table: "neverblock_cache", bytes: 1 << 30, expires_in: 86_400)
      #
      # Each step is one statement. PostgreSQL expires nothing, so a write now and then removes what is too old or too
      # much.
      # @api private
      class Postgres
        include MonotonicClock

        # Seconds between two sweeps by this process, and for one of them.
        SWEEP = 30
        SWEEP_TIMEOUT = 10
        # Rows that one statement removes.
        BATCH = 10_000
        NOW = "clock_timestamp()"
        private_constant :SWEEP, :SWEEP_TIMEOUT, :BATCH, :NOW

        # @param table [String]
        # @param bytes [Integer] of all entries
        # @param expires_in [Numeric] seconds after which an entry leaves, fresh or not
        # @param database [NeverBlock::Postgres, nil] nil: one is opened by the URL
        # @param url [String, nil]
        # @param connections [Integer] by the URL
        # @param log [#call, nil] gets lines about connections by the URL
        def initialize(table:, bytes:, expires_in:, database: nil, url: nil, connections: 10, log: nil)
          require "neverblock/postgres"
          @own = database.nil?
          # One is opened in the background: it may take longer than an operation has time.
          options = {connections:, min_connections: 1, warm: false, log:}.compact
          @database = database || NeverBlock::Postgres.new(url, **options)
          @table = table
          @bytes = bytes
          @expires_in = expires_in
          @swept_at = now
        end

        # @param shelf [Shelf]
        # @param names [Array<String>] of values
        # @yieldparam variant [String]
        # @yieldreturn [Boolean] whether the entry is wanted
        # @return [Array(Array<String, nil>, Hash{String=>String})] the values, and the entries by variant
        def look(shelf, names)
          found = exec(<<~SQL, [list(names), shelf.entries]).values
            select name, variant, body from #{@table} where (name = any($1) or name = $2) and expires_at > #{NOW}
          SQL
          entries, marks = found.partition { |name, _, _| name == shelf.entries }
          entries = entries.to_h { |_, variant, body| [variant, body] }
          entries = entries.select { |variant, _| yield variant } if block_given?
          marks = marks.to_h { |name, _, body| [name, bytes(body)] }
          [marks.values_at(*names), entries.transform_values { |body| bytes(body) }]
        end

        # @param names [Array<String>]
        # @return [Array<String, nil>]
        def values(names)
          found = exec("select name, body from #{@table} where name = any($1) and variant = '' and expires_at > #{NOW}",
            [list(names)]).values.to_h
          names.map { |name| bytes(found[name]) }
        end

        # @return [Boolean] whether it was stored: there was none
        def add(name, text, lasting: false) = insert(name, text, seconds(lasting))

        # @return [Boolean]
        def set(name, text, lasting: false) = upsert(name, "", text, seconds(lasting))

        # @param shelf [Shelf]
        # @param variant [String]
        # @param text [String] the entry
        # @param most [Integer] entries of the shelf
        # @return [Boolean] whether it is stored
        def put(shelf, variant, text, most)
          upsert(shelf.entries, variant, text, @expires_in)
          exec(<<~SQL, [shelf.entries, variant, most - 1])
            delete from #{@table} where name = $1 and variant in (
              select variant from #{@table} where name = $1 and variant <> $2 order by expires_at desc offset $3::bigint
              for update skip locked)
          SQL
          true
        end

        # @param shelf [Shelf]
        # @return [Integer] number of entries removed
        def remove(shelf) = exec("delete from #{@table} where name = $1", [shelf.entries]).cmd_tuples

        # @param shelf [Shelf]
        # @param variant [String]
        # @return [void]
        def discard(shelf, variant)
          exec("delete from #{@table} where name = $1 and variant = $2", [shelf.entries, variant])
        end

        # A row that says so; an advisory lock would need a connection of its own.
        # @param name [String]
        # @param seconds [Numeric]
        # @return [Array(Boolean, String)] whether it is had now, and a token of the one that has it
        def lease(name, seconds)
          own = SecureRandom.hex(16)
          return [true, own] if insert(name, own, seconds)
          [false, values([name]).first || own]
        end

        # @param name [String]
        # @param token [String]
        # @return [void]
        def release(name, token)
          exec("delete from #{@table} where name = $1 and variant = '' and body = $2", [name, binary(token)])
        end

        # Removes what is too old or too much, now and then. Marks of keys and tags are rows as well: without them their
        # entries are not read.
        # @return [void]
        def tidy
          return if now - @swept_at < SWEEP
          @swept_at = now
          Timeout.timeout(SWEEP_TIMEOUT) { sweep }
        end

        # @return [Boolean] whether the server can't be reached; otherwise it has refused one statement
        def failure?(error)
          PG::ConnectionBad === error || PG::UnableToSend === error || NeverBlock::Postgres::PoolTimeout === error ||
            SystemCallError === error || IOError === error
        end

        # Outside of loops a statement that is interrupted waits until the server confirms its cancel, for ten seconds
        # at most: a thread of its own does that.
        # @param seconds [Numeric]
        # @yield sends statements
        # @return [Object] the block's value
        # @raise [Timeout::Error]
        def within(seconds, &work)
          return Timeout.timeout(seconds, &work) if Scheduler.current
          thread = Thread.new do
            Thread.current.report_on_exception = false
            Timeout.timeout(seconds, &work)
          end
          thread.join(seconds) ? thread.value : raise(Timeout::Error, "execution expired")
        end

        # @return [void]
        def close = (@database.close if @own)

        private

        def upsert(name, variant, text, seconds)
          exec(<<~SQL, [name, variant, binary(text), seconds]).cmd_tuples == 1
            insert into #{@table} (name, variant, body, expires_at) values ($1, $2, $3, #{expiry("$4")})
            on conflict (name, variant) do update set body = excluded.body, expires_at = excluded.expires_at
          SQL
        end

        # A row that has expired counts as none.
        def insert(name, text, seconds)
          exec(<<~SQL, [name, binary(text), seconds]).cmd_tuples == 1
            insert into #{@table} as old (name, variant, body, expires_at) values ($1, '', $2, #{expiry("$3")})
            on conflict (name, variant) do update set body = excluded.body, expires_at = excluded.expires_at
            where old.expires_at <= #{NOW}
          SQL
        end

        def expiry(seconds) = "coalesce(#{NOW} + make_interval(secs => #{seconds}::float8), 'infinity')"

        def seconds(lasting) = lasting ? nil : @expires_in

        # One of a table's first users makes it.
        def exec(sql, params)
          @database.exec(sql, params)
        rescue PG::UndefinedTable
          create
          @database.exec(sql, params)
        end

        # Others may find it missing at the same time.
        def create
          @database.transaction do |connection|
            connection.exec_params("select pg_advisory_xact_lock(hashtext($1))", [@table])
            next if connection.exec_params("select to_regclass($1)", [@table]).getvalue(0, 0)
            connection.exec(<<~SQL)
              create unlogged table #{@table} (name text not null, variant text not null, body bytea not null,
                expires_at timestamptz not null, primary key (name, variant))
            SQL
            # What can be compressed is: the app or a middleware has done that.
            connection.exec("alter table #{@table} alter column body set storage external")
            connection.exec("create index on #{@table} (expires_at)")
          end
        end

        def sweep
          exec(<<~SQL, [BATCH])
            delete from #{@table} where ctid = any(array(
              select ctid from #{@table} where expires_at <= #{NOW} limit $1::bigint for update skip locked))
          SQL
          exec(<<~SQL, [@bytes, BATCH])
            delete from #{@table} where ctid = any(array(
              select ctid from (select ctid, expires_at, sum(octet_length(body) + 200) over (order by expires_at desc)
                as total from #{@table} where expires_at < 'infinity') as rows
              where total > $1::bigint order by expires_at limit $2::bigint))
          SQL
        end

        def list(names) = "{#{names.join(",")}}"

        def binary(text) = {value: text, format: 1, type: 17}

        def bytes(text) = text && PG::Connection.unescape_bytea(text)
      end
    end
  end
end
