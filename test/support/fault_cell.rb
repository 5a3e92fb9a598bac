# frozen_string_literal: true

require "timeout"
require_relative "database"
require_relative "delay_proxy"

module NeverBlockTest
  # A statement and its fate, for test/integration/postgres/faults_test.rb: a client with one connection, through a
  # network of its own. The fault strikes at the given stage. The test class has a DelayProxy per kind in `prepare`.
  #
  #   FaultCell.new(test, :read, :sent, :cancel).run
  class FaultCell
    include Loops
    include Minitest::Assertions

    # Faults that end the wait: sent statements may have been executed, others were not.
    CALLERS = %i[nb_timeout ruby_timeout cancel fiber_kill thread_kill silence].freeze

    # Faults that strike by themselves, at whatever stage.
    TIMED = %i[nb_timeout ruby_timeout silence].freeze

    WAIT = 0.15 # seconds, of all timeouts

    NEIGHBOURS = 5

    # @return [Integer]
    attr_accessor :assertions

    # @param test [Minitest::Test] gets the count of assertions
    # @param kind [:read, :write, :lease]
    # @param state [Symbol] as in the names of the methods arrange_…
    # @param fault [Symbol] as in the names of the methods fault_…
    def initialize(test, kind, state, fault)
      @test, @kind, @state, @fault = test, kind, state, fault
      @proxy = test.class.prepare.fetch(kind)
      @nonce = "#{kind}-#{state}-#{fault}-#{rand(1 << 60)}"
      @gate = rand(1 << 60)
      @assertions = 0
      @logged = []
    end

    # @return [void]
    def run
      @proxy.resume
      @control = PG.connect(Database.server.url)
      @control.exec("alter role nb_#{@kind} connection limit -1")
      @control.exec("select pg_advisory_lock(#{@gate})")
      in_loop { strike_in_loop }
    rescue Minitest::Assertion, StandardError => error
      raise error.class, "#{@kind}: #{error.message}", error.backtrace
    ensure
      @proxy.resume
      @database&.close
      @control&.close
      @test.assertions += @assertions
    end

    private

    def strike_in_loop
      url = "postgresql://nb_#{@kind}@127.0.0.1:#{@proxy.port}/postgres?application_name=#{application}"
      @database = NeverBlock::Postgres.new(url, connections: 1, shareable_functions: ["hold_at"], timeout: 5, log: @logged.method(:<<))
      @multiplexer = @database.multiplexer
      warm_up
      send(:"arrange_#{@state}")
      assert !@ended || TIMED.include?(@fault), "it had ended before it was #{@state}: #{@told.inspect}" unless @struck
      send(:"fault_#{@fault}") unless @struck
      @finally&.call unless CALLERS.include?(@fault)
      pass_until("the victim's end") { @ended }
      @bystanders&.each { |task| outcome(task) } if @fault == :silence
      settled if @fault == :silence
      @proxy.resume
      release
      afterwards
    end

    def application = "nb_#{@kind}_#{@state}_#{@fault}"

    # ---- the statement ----

    # Its shapes are known as fast afterwards, so that they share.
    def warm_up
      4.times { @database.exec(read_sql("0", "hold_at(0)")) }
      4.times { one(@database.exec("select 'warm'::text as n")) }
      4.times { @database.exec("select $1::text as n", ["warm"]) }
      4.times { @database.exec(rows_sql("warm")) }
      pass_until("the warming up") { idle? }
    end

    def read_sql(nonce, wait) = "select case when #{wait} is null then '' else '#{nonce}' end as n"

    def rows_sql(nonce) = "select '#{nonce}'::text || repeat('x', 50) as n from generate_series(1, 1000)"

    def insert_sql(from) = "insert into applied (nonce) #{from} returning nonce as n"

    def gated = (@kind == :read) ? read_sql(@nonce, "hold_at(#{@gate})") : insert_sql("select '#{@nonce}' where hold_at(#{@gate}) is not null")

    def plain = (@kind == :read) ? "select '#{@nonce}'::text as n" : insert_sql("values ('#{@nonce}')")

    def many = (@kind == :read) ? rows_sql(@nonce) : "insert into applied (nonce) values ('#{@nonce}') returning nonce || repeat('x', 60000) as n"

    def encoded = (@kind == :read) ? "select $1::text as n" : insert_sql("values ($1)")

    # Runs the statement, in a task or a thread, and records its outcome.
    def victim(sql, params = nil, &before)
      body = lambda do
        limited do
          value = (@kind == :lease) ? @database.transaction { |connection| run_on(connection, sql, params) } : run_on(@database, sql, params)
          @told = value
        end
      rescue Exception => error # standard:disable Lint/RescueException -- any outcome is recorded
        @told = error
        raise unless StandardError === error
      ensure
        @ended = true
      end
      @struck_by = (@fault == :thread_kill) ? Thread.new(&body).tap { |thread| thread.report_on_exception = false } : NB.spawn(&body)
    end

    def run_on(connection, sql, params)
      result = if params
        (@kind == :lease) ? connection.exec_params(sql, params) : connection.exec(sql, params)
      else
        connection.exec(sql)
      end
      result.column_values(0).map { |value| value.delete_suffix("x" * 60_000).delete_suffix("x" * 50) }.uniq
    end

    def limited(&)
      case @fault
      when :nb_timeout, :silence then NB.timeout(WAIT, &)
      when :ruby_timeout then Timeout.timeout(WAIT, &)
      else yield
      end
    end

    # Other statements on the same connection, behind the victim.
    def neighbours
      return if @kind != :read || @fault == :thread_kill # outside of a loop, statements don't share
      @bystanders = Array.new(NEIGHBOURS) do |n|
        NB.spawn { (@fault == :silence) ? NB.timeout(2 * WAIT) { neighbour(n) } : NB.timeout(10) { neighbour(n) } }
      end
    end

    def neighbour(n)
      assert_equal "#{@nonce} #{n}", one(@database.exec("select '#{@nonce} #{n}'::text as n"))
    end

    # ---- the stage ----

    def arrange_queued
      holding = true
      @holder = NB.spawn do
        NB.timeout((@fault == :silence) ? 4 * WAIT : 10) { @database.transaction { |connection| connection.exec("select 1") && pass_until("the end") { !holding } } }
      end
      pass_until("the holder") { @database.stats[:held] == 1 }
      victim(plain)
      neighbours
      pass_until("its place in the queue") { @ended || @database.stats[:queued] >= 1 }
      @finally = -> { holding = false }
      @queued = true
    end

    # While its message is built.
    def arrange_outbox
      cell = self
      nonce = Object.new
      text = @nonce
      nonce.define_singleton_method(:to_s) { cell.send(:while_encoding) && text }
      @struck = true
      victim(encoded, [nonce])
      neighbours
      pass_until("the fault") { @ended || @happened }
    end

    def while_encoding
      return true if @happened
      @happened = true
      send(:"fault_#{@fault}")
      true
    end

    def arrange_sent
      victim(gated)
      neighbours
      pass_until("its wait for the lock") { @ended || @control.exec("select 1 from pg_locks where locktype = 'advisory' and not granted and ((classid::bigint << 32) | objid::bigint) = #{@gate}").ntuples == 1 }
    end

    # Without a pipeline.
    def arrange_in_part
      @proxy.answers(3_000)
      victim(many)
      neighbours
      pass_until("the server's end of it") do
        @ended || @control.exec("select 1 from pg_stat_activity where strpos(query, '#{@nonce}') > 0 and state like 'idle%' and pid <> pg_backend_pid()").ntuples == 1
      end
    end

    # A wire that sends exclusive statements through the pipeline too.
    module Pipelined
      def single(_statement) = nil
    end

    def pipelined = ObjectSpace.each_object(NeverBlock::Postgres::Wire) { |wire| wire.extend(Pipelined) }

    def arrange_first_row
      pipelined
      reads = count_reads
      @proxy.answers(3_000)
      victim(many)
      neighbours
      pass_until("its first row") { @ended || reads.sum >= 1 }
    end

    def arrange_before_sync
      pipelined
      count_reads
      sql = plain
      tag = (@kind == :read) ? "SELECT 1" : "INSERT 0 1"
      bytes = 5 + 5 + (7 + 2 + 18) + (7 + 4 + @nonce.bytesize) + (5 + tag.bytesize + 1)
      bytes += 5 + 5 + 5 + 5 + "BEGIN".bytesize + 1 if @kind == :lease
      @proxy.answers(bytes)
      victim(sql)
      neighbours
      pass_until("its result") { @ended || connections.any? { |real| real.head&.tag == tag } }
    end

    def count_reads
      reads = []
      connections.each do |real|
        real.pg.define_singleton_method(:consume_input) { super().tap { reads << 1 } }
      end
      reads
    end

    def connections = @multiplexer.pool.connections

    # ---- the fault ----

    def fault_nb_timeout = fault_timeout

    def fault_ruby_timeout = fault_timeout

    # Computes past its deadline while its message is built.
    def fault_timeout
      return unless @state == :outbox
      late = now + WAIT + 0.1
      nil until now > late
    end

    def fault_cancel
      pass_until("its task") { @struck_by } unless @state == :outbox
      (@struck_by || NeverBlock::Task.current).cancel
    end

    def fault_fiber_kill
      (@state == :outbox) ? Fiber.current.kill : @struck_by.fiber.kill
    end

    def fault_thread_kill
      (@state == :outbox) ? Thread.current.kill : @struck_by.kill
    end

    def fault_terminate = terminate

    def terminate
      @control.exec("select pg_terminate_backend(pid) from pg_stat_activity where application_name = '#{application}'")
      @proxy.resume
    end

    def fault_cut = @proxy.cut

    def fault_silence = @proxy.silence

    # New connections are refused. Statements in flight go on; requests for a connection get the error.
    def fault_limit
      @control.exec("alter role nb_#{@kind} connection limit 0")
      terminate if @queued
      return if @state == :outbox
      @proxy.resume
      release
    end

    # ---- afterwards ----

    # No connection is held, and no request waits.
    def idle?
      stats = @database.stats
      stats.values_at(:held, :in_flight, :queued, :opening).all?(&:zero?)
    end

    def settled
      @finally&.call
      pass_until("the connections' release: #{@database.inspect}") { idle? }
    end

    def release
      @control.exec("select pg_advisory_unlock_all()")
      @finally&.call
    end

    def afterwards
      check_what_it_was_told
      @bystanders&.each { |task| assert_bystander(outcome(task)) }
      outcome(@holder) if @holder
      settled
      refused if @fault == :limit
      noticed if %i[terminate cut limit].include?(@fault)
      rows = NB.concurrently(20.times.to_a, limit: 20) { |n| NB.timeout(20) { one(@database.exec("select '#{@nonce} #{n}'::text as n")) } }
      assert_equal 20.times.map { |n| "#{@nonce} #{n}" }, rows
      NB.timeout(20) { @database.exec(insert_sql("values ('#{@nonce}-afterwards')")) }
      assert_equal 1, applied("#{@nonce}-afterwards")
      settled
      states = @control.exec("select state from pg_stat_activity where application_name = '#{application}'").column_values(0)
      assert_equal ["idle"], states.uniq
      assert_empty @logged.grep_v(/held until check-in/)
    end

    def check_what_it_was_told
      deadline = now + 30
      # real: the database's processes
      sleep 0.005 while now < deadline && @control.exec("select 1 from pg_stat_activity where application_name = '#{application}' and state <> 'idle'").ntuples > 0
      count = applied(@nonce)
      case @told
      when Array
        assert_equal [@nonce], @told
        assert_equal (@kind == :read) ? 0 : 1, count
      when NeverBlock::Postgres::OutcomeUnknown
        refute_equal :queued, @state
        assert_includes allowed, count
      else
        assert_includes CALLERS.include?(@fault) ? allowed : [0], count, "it was told #{@told.inspect}"
        acceptable = case @fault
        when :nb_timeout, :ruby_timeout, :silence then [Timeout::Error, NeverBlock::TimeoutError]
        when :cancel then [NeverBlock::Cancelled]
        when :fiber_kill, :thread_kill then [NilClass]
        else [PG::ConnectionBad, PG::UnableToSend]
        end
        assert acceptable.any? { |klass| klass === @told }, "it was told #{@told.inspect}"
      end
    end

    # A write that was sent may have been applied; a transaction without COMMIT, and a statement that was never sent,
    # may not.
    def allowed = (@kind == :write && @state != :queued) ? [0, 1] : [0]

    def assert_bystander(value)
      return if value == true
      raise value if Minitest::Assertion === value
      expected = {terminate: PG::ConnectionBad, cut: PG::ConnectionBad, limit: PG::ConnectionBad, silence: NeverBlock::TimeoutError}[@fault] || ((@state == :outbox) ? PG::ConnectionBad : nil)
      assert expected && expected === value, "a neighbour was told #{value.inspect}"
    end

    # A request for a new connection fails at once; the next one after the limit is lifted gets it.
    def refused
      @control.exec("alter role nb_#{@kind} connection limit 0")
      terminate
      error = 2.times.map { outcome(NB.spawn { NB.timeout(20) { @database.exec("select 'x'::text as n") } }) }.last
      assert_kind_of PG::ConnectionBad, error
      @control.exec("alter role nb_#{@kind} connection limit -1")
    end

    # A closed idle connection is noticed when it is next used.
    def noticed
      @database.exec("select 'noticed'::text as n")
    rescue PG::ConnectionBad
      nil
    end

    def applied(nonce) = Integer(one(@control.exec_params("select count(*) from applied where nonce = $1", [nonce])))
    def one(result) = result.getvalue(0, 0)
  end
end
