# frozen_string_literal: true

require "tmpdir"
require_relative "cached_app"

module NeverBlockTest
  # A cache on each of several hosts, with a remote store, and what becomes of clients when its server fails. A test
  # class includes it after {CacheRemoteStores}, and has
  #
  #   def url_of(path)                # the store's, by a path that leads to a server's socket
  #   def renew(server)               # ends the server; returns one that is empty
  module CacheRemoteHosts
    include CachedApp

    FRESH = {"cache-control" => "max-age=60"}.freeze
    CLIENTS = 20
    LONG = 20 # seconds that nothing takes
    PATIENCE = {KILL: LONG, STOP: 2}.freeze # seconds for a server that such a signal ends: the end of a silence is waited for

    def teardown
      @own&.signal(:CONT)
    rescue SystemCallError, TypeError
      nil # it was killed
    ensure
      end_child
      super
      @own&.stop
      FileUtils.remove_entry(@folder) if @folder
    end

    def test_a_response_is_shared_by_hosts
      number = 0
      hosts { |_| ok("by #{number += 1}", **FRESH) }
      assert_equal ["by 1"] * 2, Array.new(2) { settled { get("/a").body } }
      first = @cache
      hosts { |_| flunk }
      assert_equal "by 1", get("/a").body
      assert_equal 1, @cache.purge("http://example.org/a")
      @cache = first
      assert_equal "by 2", get("/a").body
    end

    PATIENCE.each_key do |signal|
      define_method(:"test_#{signal}_during_hits") do
        own_server
        hosts(url: own_url, timeout: PATIENCE.fetch(signal)) { |_| ok("call #{@calls}", **FRESH) }
        bodies = in_run do
          wait_until("a hit") { again(@cache.store) && settled { get("/a").body } == get("/a").body }
          hit = get("/a").body
          before = NeverBlock.concurrently(0...CLIENTS, limit: CLIENTS) { get("/a").body }
          @own.signal(signal)
          [hit, *before, *Array.new(3) { NeverBlock.concurrently(0...CLIENTS, limit: CLIENTS) { get("/a").body } }.flatten]
        ensure
          @own.signal(:CONT) if signal == :STOP # before the run's end, which waits for connections that are closed
        end
        assert_equal [bodies.first] * CLIENTS, bodies[1..CLIENTS], "these were hits"
        bodies.each { |body| assert_match(/\Acall \d+\z/, body) }
        refute_equal bodies.first, bodies.last
        assert_operator @cache.stats[:errors], :>=, 1
        refute_empty @lines
      end

      define_method(:"test_#{signal}_during_a_fetch") do
        own_server
        hosts(url: own_url, timeout: PATIENCE.fetch(signal)) { |_| ok("call #{@calls}", **FRESH).tap { wait_here } }
        wait_until("the store") { again(@cache.store).generation("x") != :unknown }
        @waiting = Thread::Queue.new
        bodies = in_run do |scope|
          clients = Array.new(CLIENTS) { scope.spawn { get("/a").body } }
          pass_until("the wait of each") { @calls == 1 && @cache.stats[:waiting] == CLIENTS }
          @own.signal(signal)
          go_on
          clients.map(&:value)
        ensure
          @own.signal(:CONT) if signal == :STOP
        end
        assert_equal ["call 1"] * CLIENTS, bodies
        assert_equal 1, @calls
      end
    end

    def test_a_server_that_comes_back_empty
      own_server
      hosts(url: own_url, timeout: LONG) { |_| ok("call #{@calls}", **FRESH) }
      hit = -> { again(@cache.store) && settled { get("/a").body } == get("/a").body }
      wait_until("a hit", &hit)
      before = get("/a").body
      renew_own
      wait_until("a response that is stored again", &hit)
      refute_equal before, get("/a").body
    end

    def test_one_host_fetches_and_the_others_wait
      child, gate, calls = host { |_| ok("by the child", **FRESH) }
      hosts { |_| ok("by this host", **FRESH) }
      bodies = in_run do |scope|
        clients = Array.new(CLIENTS) { scope.spawn { get("/a").body } }
        pass_until("the wait for the other host") { @cache.stats[:lease_waits] == 1 }
        gate.write("go on")
        gate.close
        clients.map(&:value)
      end
      assert_equal [["by the child"] * CLIENTS, 0, "child\n"], [bodies, @calls, File.read(calls)]
      assert_predicate Process.wait2(child).last, :success?
    end

    def test_the_host_that_fetches_is_killed
      hosts { |_| ok("by this host", **FRESH) }
      wait_until("the store") { again(@cache.store).generation("x") != :unknown }
      child, = host(lease: 3) { |_| ok("by the child", **FRESH) } # the last, since its lease runs from now on
      bodies = in_run do |scope|
        clients = Array.new(CLIENTS) { scope.spawn { get("/a").body } }
        pass_until("the wait for the other host") { @cache.stats[:lease_waits] == 1 }
        Process.kill(:KILL, child)
        clients.map(&:value)
      end
      assert_equal [["by this host"] * CLIENTS, 1], [bodies, @calls]
      Process.wait(child)
    end

    def test_a_host_does_not_wait_without_end
      child, gate, = host { |_| ok("by the child", **FRESH) }
      hosts(lease_wait: 0.1) { |_| ok("by this host", **FRESH) }
      bodies = in_run { NeverBlock.concurrently(0...CLIENTS, limit: CLIENTS) { get("/a").body } }
      assert_equal [["by this host"] * CLIENTS, 1], [bodies, @calls]
      gate.close
      Process.wait(child)
    end

    # The lease of such a response ends at its headers; the body goes on.
    def test_a_response_that_is_for_one_client_lets_the_others_go
      child, gate, = host { |_| ok("by the child", "set-cookie" => "a=b", **FRESH) }
      hosts { |_| ok("by this host", **FRESH) }
      bodies = in_run do |scope|
        clients = Array.new(CLIENTS) { scope.spawn { get("/a").body } }
        pass_until("the wait for the other host") { @cache.stats[:lease_waits] == 1 }
        gate.close
        clients.map(&:value)
      end
      assert_equal [["by this host"] * CLIENTS, 1], [bodies, @calls]
      Process.wait(child)
    end

    def test_an_app_that_fails_lets_the_others_go
      child, gate, = host { |_| raise IOError, "away" }
      hosts { |_| ok("by this host", **FRESH) }
      bodies = in_run do |scope|
        clients = Array.new(3) { scope.spawn { get("/a").body } }
        pass_until("the wait for the other host") { @cache.stats[:lease_waits] == 1 }
        gate.close
        clients.map(&:value)
      end
      assert_equal [["by this host"] * 3, 1], [bodies, @calls]
      Process.wait(child)
    end

    def test_clients_that_leave_while_their_host_waits
      child, gate, = host { |_| ok("by the child", **FRESH) }
      hosts(max_unattended: 1) { |_| ok("by this host", **FRESH) }
      in_run do |scope|
        clients = Array.new(3) { scope.spawn { get("/a").body } }
        pass_until("the wait for the other host") { @cache.stats[:lease_waits] == 1 }
        clients.each(&:cancel)
        gate.close
        pass_until("the end of the wait") { @cache.stats[:fetching].zero? }
        assert_equal "by the child", get("/a").body
      end
      assert_equal 0, @calls
      Process.wait(child)
    end

    def test_memory_over_it
      two = lambda do |**options, &app|
        @calls = 0
        over = new_store(lease: LONG, lease_wait: LONG)
        NeverBlock::Cache.new(->(env) { (@calls += 1) && app.call(env) }, store: {memory: "1m", over:, **options})
      end
      first = @cache = two.call(fresh_for: LONG) { |_| ok("call #{@calls}", **FRESH, "cache-tag" => "t") }
      assert_equal ["call 1"] * 3, Array.new(3) { settled { get("/a").body } }
      @cache = two.call(fresh_for: 0.01) { |_| flunk }
      assert_equal "call 1", get("/a").body
      second = @cache
      first.purge_tag("t")
      wait_until("the end of the copy") { second.store.read("http://example.org/a").empty? }
      @cache = first
      @calls = 1
      assert_equal "call 2", get("/a").body
    end

    private

    # A cache of this process.
    def hosts(url: url(self.class.server), **options, &app)
      rest = options.slice(:max_unattended)
      options = {lease: LONG, lease_wait: LONG, **options.except(*rest.keys)}
      cached(store: new_store(url:, **options), **rest, &app)
    end

    # A host that has a client, and whose app waits.
    # @return [Array(Integer, IO, String)] its process, what lets the app go on, and the file with the calls
    def host(**options, &app)
      @folder = Dir.mktmpdir("nb")
      calls = "#{@folder}/calls"
      input, gate = IO.pipe
      @gate = gate # until the end of the test
      child = fork do
        gate.close
        hosts(**options) do |env|
          File.write(calls, "child\n", mode: "a")
          input.read
          app.call(env)
        end
        NeverBlock.run { settled { raised { get("/a") } } }
        exit!(0)
      rescue Exception => error # standard:disable Lint/RescueException
        warn error.full_message
        exit!(1)
      end
      @child = child
      input.close
      wait_until("the call of the child's app") { File.exist?(calls) }
      [child, gate, calls]
    end

    # After a failure it is still there, and holds what this process has open.
    def end_child
      Process.kill(:KILL, @child) && Process.wait(@child) if @child
    rescue SystemCallError
      nil # it was waited for
    end

    # The response is stored.
    def settled
      yield.tap { wait_until("the end of the fetch") { @cache.stats[:fetching].zero? } }
    end

    def own_server
      @folder = Dir.mktmpdir("nb")
      @own = self.class.start
      link
    end

    def own_url = url_of("#{@folder}/link")

    # A path that stays the same when another server is started.
    def link
      File.symlink(address(@own), "#{@folder}/next")
      File.rename("#{@folder}/next", "#{@folder}/link")
    end

    def renew_own
      @own = renew(@own)
      link
    end
  end
end
