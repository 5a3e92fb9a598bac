# frozen_string_literal: true

require "securerandom"
require_relative "cache_store_contract"
require_relative "cached_app"
require_relative "delay_proxy"
require_relative "runs"
require "neverblock/cache"

module NeverBlockTest
  # What each remote store of the cache does. A test class includes it and has
  #
  #   def self.start                # a server, with `signal(name)` and `stop`; kept by the first test for all
  #   def url(server)               # the store's, without parameters
  #   def url_at(port)              # the same by a port of 127.0.0.1
  #   def address(server)           # where a proxy finds the server: a path or a port
  #   def new_client(server)        # of the class that the store asks, for a look past the store
  module CacheRemoteStores
    include Helpers
    include CacheStoreContract
    include CacheStoreContract::Namespaces
    include Runs

    KINDS = [[:purge, CacheStoreContract::KEY], [:purge_tag, "a"], [:clear]].freeze
    CLIENT = %i[look values add set put remove].freeze
    SHORT = 0.25 # seconds, where the end of a wait is tested
    LONG = 20 # seconds that no operation takes

    def self.included(test_class)
      test_class.extend(Servers)
    end

    # One server for all tests of a class.
    module Servers
      def server = @server ||= start.tap { |server| Minitest.after_run { server.stop } }

      def proxy(to) = @proxy ||= DelayProxy.new(to:).tap { |proxy| Minitest.after_run { proxy.close } }
    end

    def setup
      reason = self.class.missing and skip reason
      self.class.server # before a child could start one of its own
      @lines = []
      @stores = []
      @patiences = {}.compare_by_identity
      @namespace = "t#{SecureRandom.hex(6)}"
    end

    def teardown
      @proxy&.resume
      [*@stores, *@client].each(&:close)
    end

    def counts? = false

    def new_store(url: url(self.class.server), **options)
      kind, place = url.split(":", 2)
      open_store(kind.to_sym, place, connections: 4, **options)
    end

    # With a patience that a test can end.
    def open_store(kind, place, **options)
      patience = NeverBlock::Cache::Patience.new(long: Float::INFINITY)
      options = {namespace: @namespace, timeout: LONG, log: @lines.method(:<<), patience:, **options}
      one = NeverBlock::Cache::RemoteStores.open(kind, place, options)
      @patiences[one] = patience
      @stores << one
      one
    end

    def test_another_process_reads_and_purges
      store.write(KEY, entry("x", tags: %w[a]))
      KINDS.each do |purge|
        assert store.write(KEY, entry("x", tags: %w[a]))
        before = store.generation(KEY)
        elsewhere { |other| other.read(KEY).map { |one| body(one) } == ["x"] && other.public_send(*purge) }
        assert_equal [[], false], [store.read(KEY), store.write(KEY, entry("late", tags: %w[a]), generation: before)], purge.inspect
      end
    end

    # As a worker has the store of the process that loaded the app.
    def test_a_forked_child_uses_it
      store.write(KEY, entry("x"))
      elsewhere { store.read(KEY).map { |one| body(one) } == ["x"] && store.purge(KEY) == 1 && store.write(KEY, entry("y")) }
      assert_equal ["y"], bodies(KEY)
      assert_equal 0, store.stats[:errors], @lines
    end

    # Between each two steps of the writer.
    def test_a_purge_at_any_time_of_a_write
      KINDS.each do |purge|
        places = (0..30).find do |place|
          before = store.generation(KEY)
          over = at_step(place, -> { other.public_send(*purge) }) { store.write(KEY, entry("late", tags: %w[a b]), generation: before) }
          assert_equal [], store.read(KEY), "#{purge} at #{place}" unless over
          over
        end
        assert_operator places, :>, 3
        assert_equal ["late"], bodies(KEY)
        store.clear
      end
    end

    # And of the purge.
    def test_a_write_at_any_time_of_a_purge
      KINDS.each do |purge|
        (0..10).find do |place|
          before = store.generation(KEY)
          over = at_step(place, -> { other.write(KEY, entry("late", tags: %w[a]), generation: before) }) { store.public_send(*purge) }
          assert_equal [], store.read(KEY), "#{purge} at #{place}"
          over
        end
      end
    end

    # No variant is lost.
    def test_variants_that_several_processes_store_at_once
      threads = Array.new(4) do |number|
        Thread.new do
          one = new_store
          4.times { |round| one.write(KEY, entry("x", vary: [["x", "#{number} #{round}"]])) }
        end
      end
      threads.each(&:join)
      assert_equal 16, store.read(KEY).size
    end

    def test_damaged_and_foreign_bytes_are_removed
      store.write(KEY, entry("hello", tags: %w[a]))
      variant, good = stored.first
      bad = good.bytesize.times.select { |place| (place % 23).zero? }.map { |place| good.dup.tap { |text| text.setbyte(place, text.getbyte(place) ^ 1) } }
      ["x", good[0..-2], "#{good}x", *bad].each do |text|
        client.put(shelf, variant, text, 32)
        assert_equal [[], {}], [store.read(KEY), stored], text.inspect
      end
      assert_operator store.stats[:errors], :>, 5
      assert_equal 1, @lines.size
      client.put(shelf, variant, good, 32)
      assert_equal ["hello"], bodies(KEY)
    end

    def test_an_entry_of_another_key_is_refused
      store.write(KEY, entry("hello"))
      text = stored.values.first
      store.write(OTHER, entry("other"))
      client.put(shelf(OTHER), stored.keys.first, text, 32)
      assert_equal [], store.read(OTHER)
    end

    def test_entries_expire
      @store = new_store(expires_in: 1)
      store.write(KEY, entry("x"))
      assert_equal ["x"], bodies(KEY)
      wait_until("the end of its life") { store.read(KEY).empty? }
    end

    # It is not asked for a while, and then again.
    def test_a_server_that_is_silent
      proxied(timeout: SHORT) do |silent, proxy|
        proxy.silence
        assert_equal [[], :unknown, false], [silent.read(KEY), silent.generation(KEY), silent.write(KEY, entry("y"))]
        assert_predicate silent, :resting?
        proxy.resume
        assert_equal [], silent.read(KEY), "it is still left alone"
        again(silent)
        wait_until("an entry") { again(silent).read(KEY).map { |one| body(one) } == ["x"] }
      end
      assert_match(/\A(Redis|memcached|PostgreSQL).*Later ones are only counted\z/, @lines.first)
    end

    def test_a_server_that_is_gone
      proxied(timeout: LONG) do |one, proxy|
        proxy.refuse
        proxy.cut
        wait_until("a failure") { one.read(KEY).empty? && one.resting? }
        errors = one.stats[:errors]
        assert_operator errors, :>=, 1
        assert_equal [[], :unknown, false], [one.read(KEY), one.generation(KEY), one.write(KEY, entry("y"))]
        proxy.resume
        wait_until("an entry") { again(one).read(KEY).map { |found| body(found) } == ["x"] }
      end
    end

    def test_a_purge_that_does_not_arrive
      proxied(timeout: SHORT) do |one, proxy|
        proxy.silence
        assert_equal 0, one.purge(KEY)
        proxy.resume
        again(one)
        assert_equal [], one.read(KEY), "it might be what was to be purged"
        wait_until("trust") { one.clear == 0 && again(one).write(OTHER, entry("z")) }
        assert_equal [], one.read(KEY)
      end
    end

    # In the head of a response, and in the body of an entry.
    def test_a_connection_that_is_reset_in_the_middle_of_a_response
      proxied(timeout: 0.5) do |one, proxy|
        one.write(OTHER, entry(Random.new(1).bytes(400_000)))
        [1, 30, 1_000, 70_000].each do |bytes|
          proxy.answers(bytes)
          reading = Thread.new { one.read(OTHER) }
          wait_until("the response's end") { reading.stop? || !reading.alive? }
          proxy.cut
          proxy.resume
          found = reading.value
          assert_includes [[], [400_000]], found.map(&:body_size)
          wait_until("an entry") { again(one).read(KEY).map { |entry| body(entry) } == ["x"] }
        end
      end
    end

    # The next user of a connection gets no response to another one's command.
    def test_tasks_that_are_cancelled_in_the_middle_of_a_command
      proxied(timeout: LONG) do |one, proxy|
        one.write(OTHER, entry("other"))
        in_run do |scope|
          5.times do
            proxy.silence
            tasks = Array.new(3) { |number| scope.spawn { number.zero? ? one.write(KEY, entry("x")) : one.read(OTHER) } }
            tasks.each { |task| parked(task) }
            tasks.each(&:cancel)
            proxy.resume
            tasks.each { |task| raised { task.value } }
            again(one)
            assert_equal [["x"], ["other"]], [KEY, OTHER].map { |key| one.read(key).map { |entry| body(entry) } }
          end
        end
      end
    end

    # Threads have no loop that could end their waits.
    def test_deadlines_of_threads
      proxied(timeout: SHORT) do |one, proxy|
        proxy.silence
        found = Array.new(6) { Thread.new { one.read(KEY) } }.map(&:value)
        assert_equal [[]] * 6, found
        proxy.resume
        wait_until("an entry") { again(one).read(KEY).map { |entry| body(entry) } == ["x"] }
      end
    end

    def test_one_at_a_time_has_a_lease
      token = assert_lease(store.lease("what", 30))
      assert_equal [false, token], other.lease("what", 30)
      assert_lease(other.lease("something else", 30))
      other.release("what", "of another one".then { |text| (Integer === token) ? token + 1 : text })
      assert_equal [false, token], other.lease("what", 30)
      store.release("what", token)
      mine, second = other.lease("what", 30)
      assert_equal true, mine
      refute_equal token, second
      store.release("what", token) # it has lost it
      assert_equal [false, second], store.lease("what", 30)
    end

    def test_a_lease_ends_by_itself
      assert_lease(store.lease("what", 1))
      wait_until("the end of the lease") { other.lease("what", 30).first }
    end

    private

    def assert_lease(lease)
      assert_equal true, lease.first
      lease.last
    end

    def client = @client ||= new_client(self.class.server)

    def shelf(key = KEY) = store.send(:shelf, key)

    # @return [Hash{String=>String}] bytes of entries by variant
    def stored = client.look(shelf, [store.send(:name, "all")]).last

    # @return [RemoteStore] of another process, as it were
    def other = @other ||= new_store

    # Calls the block in another process.
    def elsewhere
      child = fork do
        exit!(yield(new_store) ? 0 : 1)
      rescue Exception => error # standard:disable Lint/RescueException
        warn error.full_message
        exit!(1)
      end
      assert_predicate Process.wait2(child).last, :success?
    end

    # Calls `change` before a step of the store's client.
    # @return [Boolean] whether the block has fewer steps
    def at_step(place, change, &)
      kind = client.class
      count = -1
      steps = TracePoint.new(:call) do |point|
        change.call if CLIENT.include?(point.method_id) && kind === point.self && (count += 1) == place
      end
      steps.enable(target_thread: nil, &) # a client may have a thread of its own
      count < place
    end

    # With a proxy before the server, and an entry under KEY.
    def proxied(**options)
      reason = DelayProxy.missing and skip reason
      @proxy = self.class.proxy(address(self.class.server))
      one = nil
      wait_until("a store without errors") do # on a busy machine, some attempts fail
        one = new_store(url: url_at(@proxy.port), **options)
        one.write(KEY, entry("x", tags: %w[a])) && one.stats[:errors].zero?
      end
      @lines.clear
      yield one, @proxy
    end

    # It may ask at once.
    def again(store) = store.tap { @patiences.fetch(store).renew }
  end
end
