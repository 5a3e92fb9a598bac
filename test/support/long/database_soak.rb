# frozen_string_literal: true

require "json"
require "tempfile"
require_relative "../delay_proxy"
require_relative "../pgbouncer"
require_relative "database_cluster"
require_relative "sampled"
require_relative "watched_server"

module NeverBlockTest
  # Runs a process whose fibers use every feature of a database, in rounds, under every kind of fault. Compares what
  # each fiber was told with the content of the database, and reads the resources of the process after each round.
  #
  #   soak = DatabaseSoak.new(rounds: 12, seconds: 10, seed: 1).call     # pooler: PgBouncer.installed, for one in between
  #   soak.wrong     # => []
  #   soak.faults    # => {"terminate" => 123, "restart" => 4, …}
  #   soak.samples.map { |sample| sample["objects"] }
  class DatabaseSoak
    include Clock
    include Sampled

    PROGRAM = File.join(__dir__, "database_client.rb")
    FIBERS = 60
    LIMIT = 60 # seconds in which a round must have ended

    # Synchronous commits, so that committed rows survive a crash. A server that shuts down waits up to
    # authentication_timeout for connections that a silent network keeps from logging in; the default is a minute.
    SETTINGS = {max_connections: 60, synchronous_commit: "on", authentication_timeout: 10}.freeze

    SCHEMA = <<~SQL
      create role soak_app login;
      alter role soak_app set client_min_messages = error;
      create role soak_role_1;
      create role soak_role_2;
      grant soak_role_1, soak_role_2 to soak_app;
      create schema soak_other;
      create table soak (nonce text);
      create table soak_counts (id int primary key, n bigint default 0);
      insert into soak_counts select generate_series(1, 4);
      create table soak_items as select n as id, 'item ' || n as name from generate_series(1, 50) n;
      alter table soak_items add primary key (id);
      create table soak_secrets as select n as id, n % 8 + 1 as tenant from generate_series(1, 200) n;
      alter table soak_secrets enable row level security;
      create policy own on soak_secrets using (tenant = nullif(current_setting('soak.tenant', true), '')::int);
      create view soak_state as select coalesce(current_setting('soak.tenant', true), '') as tenant, current_user::text as login,
        current_setting('statement_timeout') as waits, (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()) as locks,
        (select count(*) from pg_class where relnamespace = pg_my_temp_schema()) as tables;
      create table soak_locked as select 1 as n;
      create table soak_place as select 'public' as place;
      create table soak_other.soak_place as select 'other' as place;
      create table soak_typed (at timestamp, what text);
      insert into soak_typed values ('2026-01-01 00:00', 'of a moment'), ('2026-01-01 05:00', 'of a clock');
      alter table soak_typed owner to soak_app;
      create function soak_keeps(value text) returns text language sql as $$ select set_config('soak.tenant', value, false) $$;
      grant usage on schema soak_other to public;
      grant select on soak_other.soak_place to soak_app;
      grant all on all tables in schema public to soak_app;
    SQL

    # The sum of the four clients' connections.
    CONNECTIONS = 15

    # Settings that sessions get through their role, since a pooler doesn't forward settings.
    POOLED = "alter role soak_app set intervalstyle = iso_8601"

    BACKENDS = "pg_stat_activity where usename = 'soak_app'"

    # Faults, by weight.
    FAULTS = {terminate: 8, cancel: 4, cut: 2, silence: 1, slow_network: 2, refuse: 1, limit: 1, freeze: 1, reload: 2, redefine: 2, migrate: 2, restart: 1, restart_at_once: 1, crash: 1, fail_over: 1}
      .flat_map { |fault, weight| [fault] * weight }.freeze

    # Not for a pooler: it has one server, and keeps sessions across a change of their defaults.
    UNPOOLED = %i[redefine fail_over].freeze

    # @return [String, nil] why the soak can't run
    def self.missing
      gem = %w[pg activerecord sequel].find { |name| !Gem.loaded_specs.key?(name) }
      PostgresServer.missing || DelayProxy.missing || ("#{gem} is not among the gems here" if gem) || ("no /proc here" unless File.exist?("/proc/self/smaps_rollup"))
    end

    # @return [Array<Hash>] resources of the process after each round
    attr_reader :samples
    # @return [Array<String>] errors
    attr_reader :wrong
    # @return [Hash{String=>Integer}] finished acts, by kind; outcomes, by kind; faults, by kind
    attr_reader :done, :ended, :faults
    # @return [Integer] the most backends after a round
    attr_reader :backends
    # @return [Integer]
    attr_reader :seed

    # @param rounds [Integer]
    # @param seconds [Numeric] of each
    # @param seed [Integer]
    # @param pooler [String, nil] the path of a PgBouncer to put in between
    # @param acts [Integer] kinds of acts that have to come to their end, and four times as many acts; a busy machine gets
    #   up to five times the rounds
    def initialize(rounds:, seconds:, seed:, pooler: nil, acts: 0)
      @acts = acts
      @rounds, @seconds, @seed, @pooler = rounds, seconds, seed, pooler
      @kinds = @pooler ? FAULTS - UNPOOLED : FAULTS
      @random = Random.new(seed)
      @samples = []
      @wrong = []
      @done, @ended, @faults = Hash.new(0), Hash.new(0), Hash.new(0)
      @backends = 0
    end

    # @return [self]
    def call
      require "pg"
      DatabaseCluster.open(**SETTINGS) do |cluster|
        @cluster = cluster
        server.query(SCHEMA)
        with_place do |socket|
          DelayProxy.open(to: socket) do |proxy|
            @proxy = proxy
            with_client { rounds }
          end
          left = @pooler ? 0 : at_rest(0)
          @wrong << "#{left} connections are left" unless left.zero?
        end
      end
      self
    end

    private

    def rounds
      @rounds.times { round }
      (4 * @rounds).times { round if done.size < @acts || done.values.sum < 4 * @acts }
    end

    def server = @cluster.primary

    # @yieldparam socket [String] the path that clients connect to
    def with_place
      return yield(@cluster.socket) unless @pooler
      server.query(POOLED)
      PgBouncer.open(server, program: @pooler) { |bouncer| yield "#{bouncer.folder}/.s.PGSQL.#{bouncer.port}" }
    end

    # @return [String, nil] the URL that bypasses the pooler
    def session_url = (server.url.sub("user=postgres", "user=soak_app") if @pooler)

    def with_client
      input, @commands = IO.pipe
      @answers, output = IO.pipe
      @errors = Tempfile.new("soak")
      @pid = WatchedServer.spawn(PROGRAM, "postgresql://soak_app@127.0.0.1:#{@proxy.port}/postgres", FIBERS.to_s, @seed.to_s, *session_url,
        in: input, out: output, err: @errors.path)
      [input, output].each(&:close)
      answer # Sequel connects while the client starts: an earlier fault would end the client
      yield
      @commands.close
      fail_with_client unless wait.success?
    ensure
      Process.kill(:KILL, @pid) && wait if @pid
      [@commands, @answers].each { |io| io.close unless io.closed? }
      @errors.close!
    end

    def wait
      @status = Process.wait2(@pid).last
      @pid = nil
      @status
    end

    # @raise [Minitest::Assertion] always: the client's status, and the beginning and end of its standard error
    def fail_with_client
      wait if @pid
      text = File.read(@errors.path)
      text = "#{text[0, 4_000]}\n[…]\n#{text[-4_000..]}" if text.size > 8_000
      raise Minitest::Assertion, "the client ended with #{@status}, after #{@last.inspect}, SEED=#{@seed}:\n#{text}"
    end

    def command(line)
      @commands.puts(line)
    rescue Errno::EPIPE
      fail_with_client
    end

    def round
      command(@seconds)
      haunt(now + @seconds)
      command("peace")
      report = answer
      compare(report["told"])
      report["done"].each { |kind, count| @done[kind] += count }
      report["ended"].each { |how, count| @ended[how] += count }
      @wrong.concat(report["wrong"])
      @samples << answer
      @backends = [@backends, at_rest].max
    end

    # Waits until the backends of closed clients have ended.
    def at_rest(most = CONNECTIONS)
      deadline = now + 5
      # real: the server's processes end
      sleep 0.05 while (count = ask("select count(*) from #{BACKENDS}").to_i) > most && now < deadline
      count
    end

    def answer
      hangs unless @answers.wait_readable(LIMIT)
      JSON.parse(@answers.gets || fail_with_client)
    end

    # Makes the client write to standard error where its fibers are.
    def hangs
      Process.kill(:USR2, @pid)
      sleep 2 # real: the client's process writes
      backends = ask("select pid, state, wait_event, query from #{BACKENDS}")
      raise Minitest::Assertion, "a round does not end, after #{@last.inspect}, SEED=#{@seed}:\n#{backends}\n#{File.read(@errors.path)}"
    end

    # ---- faults ----

    def haunt(deadline)
      while now < deadline
        fault = @kinds.sample(random: @random)
        @last = (@last.to_a << fault).last(5)
        send(fault)
        @faults[fault.to_s] += 1
        pause(0.1, 0.6)
      end
    end

    def pause(from, to) = sleep(@random.rand(from..to)) # real: the client's process and the database work between two faults

    def terminate = ask("select pg_terminate_backend(pid) from #{BACKENDS} order by random() limit 1")

    def cancel = ask("select pg_cancel_backend(pid) from #{BACKENDS} and state = 'active' order by random() limit 1")

    def cut = @proxy.cut

    def silence
      @proxy.silence
      pause(0.1, 1.2)
    ensure
      @proxy.resume
    end

    def slow_network
      @proxy.delay = 0.03
      pause(0.2, 0.6)
    ensure
      @proxy.delay = 0
    end

    # Refuses new connections: in the network, and in the server.
    def refuse
      @proxy.refuse
      terminate
      pause(0.1, 0.4)
    ensure
      @proxy.resume
    end

    def limit
      ask("alter role soak_app connection limit 2")
      3.times { terminate }
      pause(0.1, 0.5)
    ensure
      ask("alter role soak_app connection limit -1")
    end

    # A server that hangs.
    def freeze
      pids = ask("select pid from #{BACKENDS}").lines.map(&:to_i)
      signal(:STOP, pids)
      pause(0.1, 0.8)
    ensure
      signal(:CONT, pids)
    end

    def signal(name, pids)
      pids.each do |pid|
        Process.kill(name, pid)
      rescue Errno::ESRCH
        nil # it has ended in the meantime
      end
    end

    # Changes a setting that the server reports to connections.
    def reload
      ask("alter system set timezone to '#{%w[UTC Asia/Tokyo Europe/Paris].sample(random: @random)}'")
      ask("select pg_reload_conf()")
    end

    # Makes new connections find other tables.
    def redefine
      ask(@random.rand(2).zero? ? "alter role soak_app reset search_path" : "alter role soak_app set search_path to soak_other, public")
      terminate
    end

    # Another program changes a column's type. Skips it if a client has just done so: the conversion would apply twice.
    def migrate
      zoned = @random.rand(2).zero?
      ask(<<~SQL)
        do $$ begin lock table soak_typed in access exclusive mode; if (select atttypid <> '#{zoned ? "timestamptz" : "timestamp"}'::regtype from pg_attribute where attrelid = 'soak_typed'::regclass and attname = 'at')
        then alter table soak_typed alter column at type #{zoned ? "timestamptz" : "timestamp"} using at at time zone 'UTC'; end if; end $$
      SQL
    end

    def restart = server.restart(:fast)

    def restart_at_once = server.restart(:immediate)

    def fail_over = @cluster.fail_over

    # Kills a backend: the server then ends all others, and recovers.
    def crash = signal(:KILL, [ask("select pid from #{BACKENDS} limit 1").to_i].reject(&:zero?))

    # Bypasses the network, and retries until the server answers.
    def ask(sql)
      deadline = now + LIMIT
      begin
        PG.connect(server.url) { |connection| connection.exec(sql).values.map { |row| row.join(" ") }.join("\n") }
      rescue PG::ConnectionBad, PG::Error => error
        raise if now > deadline || !(PG::ConnectionBad === error || PG::CrashShutdown === error || PG::AdminShutdown === error)
        sleep 0.02 # real: the server's recovery
        retry
      end
    end

    # ---- comparison of outcomes with the database ----

    def compare(told)
      counts = ask("select nonce, count(*) from soak group by nonce").lines(chomp: true).to_h { |line| line.split.then { |nonce, count| [nonce, count.to_i] } }
      counted, told = told.partition { |nonce, _| nonce.start_with?("count-") }
      told.each do |nonce, word|
        count = counts.delete(nonce).to_i
        @wrong << "#{nonce} is there #{count} times, and was told: #{word}" unless possible(word, 1).cover?(count)
      end
      @wrong << "no client reported #{counts.first(5)}" if counts.any?
      sum = ask("select sum(n) from soak_counts").to_i
      words = counted.map(&:last).tally
      wanted = words.fetch("applied", 0)..(words.fetch("applied", 0) + words.fetch("open", 0))
      @wrong << "a counter has grown by #{sum} instead of #{wanted}" unless wanted.cover?(sum)
      ask("truncate soak; update soak_counts set n = 0")
    end

    def possible(word, times)
      case word
      when "applied" then times..times
      when "open" then 0..times
      else 0..0
      end
    end
  end
end
