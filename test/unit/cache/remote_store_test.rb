# frozen_string_literal: true

require "test_helper"
require "support/cache_store_contract"
require "support/runs"
require "support/virtual_time"
require "neverblock/cache"
require "neverblock/cache/remote_store/key_value"

# What a remote store does about its client's failures; the clients have tests with real servers.
class CacheRemoteStoreTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::CacheStoreContract
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  RemoteStore = NeverBlock::Cache::RemoteStore

  # A server in memory.
  class Client < RemoteStore::KeyValue
    Lost = Class.new(StandardError)

    attr_accessor :before # called first by each operation
    attr_reader :asked

    def initialize
      super
      @values = {}
      @lock = Thread::Mutex.new
      @asked = 0
    end

    def size = @values.size

    def values(names) = step { @values.values_at(*names) }

    def add(name, text, lasting: false) = step { @values.key?(name) ? false : (@values[name] = text) && true }

    def set(name, text, lasting: false) = step { (@values[name] = text) && true }

    def delete(name) = step { !@values.delete(name).nil? }

    def failure?(error) = Lost === error

    def close = nil

    private

    def step
      @asked += 1
      @before&.call
      @lock.synchronize { yield }
    end
  end

  def setup
    @client = Client.new
    @lines = []
  end

  def new_store(**options) = RemoteStore.new(@client, place: "a server", log: @lines.method(:<<), timeout: 10, **options)

  def counts? = false

  def test_a_server_that_is_lost_is_left_alone
    store.write(KEY, entry("x"))
    @client.before = -> { raise Client::Lost, "no route" }
    5.times { assert_equal [[], :unknown, false, nil], [store.read(KEY), store.generation(KEY), store.write(KEY, entry("y")), store.lease("a", 1)] }
    assert_equal ["a server: no route (CacheRemoteStoreTest::Client::Lost). Later ones are only counted"], @lines.first(1)
    asked = @client.asked
    store.read(KEY)
    assert_equal asked, @client.asked
    assert_predicate store, :resting?
  end

  def test_further_purges_do_not_wait_for_a_server_that_is_lost
    store.write(KEY, entry("x"))
    @client.before = -> { raise Client::Lost }
    store.purge(KEY)
    asked = @client.asked
    assert_equal [0, 0, asked], [store.purge(OTHER), store.purge_tag("a"), @client.asked]
    @client.before = nil
    store.clear
    assert store.write(OTHER, entry("y"))
    assert_equal [[], ["y"]], [bodies(KEY), bodies(OTHER)]
  end

  # It may be this host's clock that is wrong.
  def test_an_entry_of_the_future_is_neither_read_nor_removed
    store.write(KEY, entry("x", at: Process.clock_gettime(Process::CLOCK_REALTIME) + 300))
    size = @client.size
    assert_equal [[], size], [store.read(KEY), @client.size]
  end

  def test_a_command_that_fails_is_a_miss
    store.write(KEY, entry("x"))
    @client.before = -> { raise ArgumentError }
    assert_equal [], store.read(KEY)
    refute_predicate store, :resting?
    @client.before = nil
    assert_equal ["x"], bodies(KEY)
  end

  def test_a_deadline_that_is_over
    @store = new_store(timeout: 10)
    @client.before = -> { sleep }
    assert_equal [], in_run { store.read(KEY) }
    assert_in_delta 10, clock.elapsed
    assert_predicate store, :resting?
  end

  # A busy loop looks for the response too late.
  def test_a_process_that_was_late_itself
    store
    late = lambda do
      clock.advance(30)
      raise Timeout::Error
    end
    @client.before = late
    assert_equal [], store.read(KEY)
    refute_predicate store, :resting?
    @client.before = nil
    store.write(KEY, entry("x"))
    @client.before = late
    store.read(KEY)
    refute_predicate store, :resting?, "it has responded in between"
    store.read(KEY)
    assert_predicate store, :resting?
  end

  def test_a_timeout_of_the_caller_says_nothing_about_the_server
    store.write(KEY, entry("x"))
    @client.before = -> { sleep }
    in_run { raised { NeverBlock.timeout(9) { store.read(KEY) } } }
    refute_predicate store, :resting?
    @client.before = nil
    assert_equal ["x"], bodies(KEY)
  end

  def test_lists_of_other_processes_are_read
    store.write(KEY, entry("x"))
    shelf = store.send(:shelf, KEY)
    ["", "{}", "[1]", "[\"../x\"]", "x", "\xff"].each do |text|
      @client.set(shelf.index, text)
      assert_equal [], store.read(KEY), text.inspect
    end
  end
end
