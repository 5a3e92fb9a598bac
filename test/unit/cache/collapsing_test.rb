# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "minitest/mock"
require "tmpdir"
require "neverblock"
require "neverblock/cache/collapsing"

# `fetch(key, collapse: true)` of Rails' stores.
class CacheCollapsingTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs

  begin
    require "active_support"
    require "active_support/cache"
    require "active_support/notifications"
    ActiveSupport::Cache::SerializerWithFallback::MessagePackWithFallback.dumped?("") # two threads would write a warning
  rescue LoadError
    nil # left out on preview Rubies
  end

  # A key object, as a record is one.
  Post = Struct.new(:id, :cache_version) do
    def cache_key = "posts/#{id}"
  end

  def setup
    skip "activesupport is not among the gems here" unless defined?(ActiveSupport::Cache)
    @folder = Dir.mktmpdir("nb")
    @runs = 0
    @gate = Thread::Queue.new
    use memory_store
  end

  def teardown
    FileUtils.rm_rf(@folder) if @folder
  end

  # -- one computation

  def test_concurrent_misses_compute_once
    each_store do
      values = in_run do |scope|
        callers = ask(scope, 5) { "value #{@runs}" }
        @gate.close
        callers.map(&:value)
      end
      assert_equal [["value 1"] * 5, 1], [values, @runs]
      assert_equal "value 1", fetch { flunk }
    end
  end

  def test_also_in_threads
    each_store do
      callers = Array.new(3) { Thread.new { fetch { compute { :value } } } }
      wait_until("the threads to wait") { @runs == 1 && callers.all?(&:stop?) }
      @gate.close
      assert_equal [[:value] * 3, 1], [callers.map(&:value), @runs]
    end
  end

  def test_each_caller_has_an_object_of_its_own
    each_store do
      made = nil
      values = in_run do |scope|
        callers = ask(scope, 3) { made = {list: ["one"]} }
        @gate.close
        callers.map(&:value)
      end
      assert_same made, values.first, "the first caller has what its block has made, as in Rails"
      values.each { |value| value[:list] << "two" }
      assert_equal [{list: %w[one two]}] * 3, values
      assert_equal({list: ["one"]}, @store.read("key"))
    end
  end

  def test_a_value_changed_at_once_by_the_first_caller
    in_run do |scope|
      first = scope.spawn { fetch { compute { +"value" } }.tap { |value| value << " changed" } }
      others = ask(scope, 2) { flunk }
      @gate.close
      assert_equal ["value changed", "value", "value"], [first, *others].map(&:value)
    end
  end

  def test_a_store_that_hands_out_one_object
    use ActiveSupport::Cache::MemoryStore.new(coder: nil)
    values = in_run do |scope|
      callers = ask(scope, 2) { Object.new }
      @gate.close
      callers.map(&:value)
    end
    assert_same(*values)
  end

  def test_values_pass_the_serializer_of_the_store
    use remote_store(coder: Module.new {
      def self.dump(entry) = entry.value.inspect
      def self.load(text) = ActiveSupport::Cache::Entry.new("read: #{text}")
    })
    in_run do |scope|
      callers = ask(scope, 2) { :value }
      @gate.close
      assert_equal [:value, "read: :value"], callers.map(&:value)
    end
    assert_equal "read: :value", fetch { flunk }
  end

  def test_nil
    {{} => [nil, nil, 1], {skip_nil: true} => [nil, nil, 2]}.each do |options, expected|
      each_store do
        values = in_run do |scope|
          callers = ask(scope, 2, **options) { nil }
          @gate.close
          callers.map(&:value)
        end
        fetch(**options) { @runs += 1 }.then { |value| assert_includes [nil, 2], value }
        assert_equal expected, [*values, @runs]
      end
    end
  end

  def test_without_the_option_nothing_changes
    [{}, {collapse: false}, {collapse: nil}].each do |options|
      each_store do
        values = in_run do |scope|
          callers = Array.new(3) { parked(scope.spawn { @store.fetch("key", **options) { compute { @runs } } }) }
          @gate.close
          callers.map(&:value)
        end
        assert_equal [[3] * 3, 3], [values, @runs]
      end
    end
    assert_nil @store.fetch("other", collapse: true)
    assert_nil @store.fetch("other")
  end

  # -- keys

  def test_keys_that_mean_the_same_and_keys_that_do_not
    {
      ["key", {}] => 1, [:key, {}] => 1, [["key"], {}] => 1,
      ["other", {}] => 2, ["key", {namespace: "one"}] => 2, ["key", {version: "2"}] => 2
    }.each do |(name, options), runs|
      each_store do
        in_run do |scope|
          callers = ask(scope, 1) { :value }
          callers << parked(scope.spawn { @store.fetch(name, collapse: true, **options) { compute { :value } } })
          @gate.close
          callers.each(&:join)
        end
        assert_equal runs, @runs, "#{name.inspect} #{options}"
      end
    end
  end

  def test_versions_of_a_record
    in_run do |scope|
      callers = [Post.new(1, 1), Post.new(1, 1), Post.new(1, 2)].map do |post|
        parked(scope.spawn { @store.fetch(post, collapse: true) { compute { post.cache_version } } })
      end
      @gate.close
      assert_equal [[1, 1, 2], 2], [callers.map(&:value), @runs]
    end
  end

  # -- hits and misses in time

  def test_a_miss_that_is_noticed_late_is_a_hit
    each_store do
      late = Thread::Queue.new
      read = Thread::Queue.new
      @store.define_singleton_method(:read_entry) do |*arguments, **options|
        super(*arguments, **options).tap { read.pop if Thread.current[:late] && late << true && !read.closed? }
      end
      in_run do |scope|
        caller = scope.spawn do
          Thread.current[:late] = true
          fetch { flunk }
        end
        late.pop # it has read, and found nothing
        assert_equal :value, fetch { :value }
        read.close
        assert_equal :value, caller.value
      end
    end
  end

  def test_an_expired_value_serves_the_others_meanwhile
    each_store do
      options = {expires_in: 60, race_condition_ttl: 30}
      write_expired("old", **options)
      in_run do |scope|
        first = ask(scope, 1, **options) { "new #{@runs}" }.first
        assert_equal ["old"] * 3, Array.new(3) { fetch(**options) { flunk } }
        @gate.close
        assert_equal "new 1", first.value
        assert_equal "new 1", fetch(**options) { flunk }
      end
    end
  end

  def test_an_expired_value_that_all_have_read_at_once
    options = {expires_in: 60, race_condition_ttl: 30}
    write_expired("old", **options)
    all = Thread::Queue.new
    @store.define_singleton_method(:read_entry) { |*arguments, **given| super(*arguments, **given).tap { all.pop } }
    in_run do |scope|
      callers = Array.new(3) { parked(scope.spawn { fetch(**options) { compute { "new #{@runs}" } } }) }
      all.close
      pass_until { @runs == 1 }
      @gate.close
      assert_equal ["new 1"] * 3, callers.map(&:value)
    end
  end

  def test_an_expired_value_without_race_condition_ttl
    each_store do
      write_expired("old", expires_in: 60)
      in_run do |scope|
        callers = ask(scope, 3) { "new #{@runs}" }
        @gate.close
        assert_equal ["new 1"] * 3, callers.map(&:value)
      end
    end
  end

  def test_force_never_waits_for_an_older_computation
    each_store do
      in_run do |scope|
        caller = ask(scope, 1) { :old }.first
        assert_equal :new, fetch(force: true) { :new }
        assert_equal :new, fetch { flunk }
        @gate.close
        assert_equal :old, caller.value
      end
    end
  end

  def test_the_options_are_those_of_rails
    each_store do
      fetch(expires_in: 60) { :soon }
      fetch(name: "set", expires_in: 60) { |name, options| [name, options.expires_in = 5] }
      assert_equal ["set", 5], @store.read("set")
      at(Time.now + 10) { assert_equal [:soon, nil], [@store.read("key"), @store.read("set")] }
      at(Time.now + 61) { assert_equal :other, fetch { :other } }
    end
  end

  # -- after a delete

  DELETIONS = {
    delete: ["key"], delete_multi: [["other", "key"]], delete_matched: [/k/], clear: []
  }.freeze

  DELETIONS.each do |method, arguments|
    define_method(:"test_after_#{method}_a_miss_does_not_wait_for_an_older_computation") do
      each_store do
        in_run do |scope|
          old = ask(scope, 2) { :old }
          @store.public_send(method, *arguments)
          assert_equal :new, fetch { :new }
          @gate.close
          assert_equal [:old, :old], old.map(&:value)
        end
      end
    end
  end

  def test_a_delete_of_another_key_or_namespace_changes_nothing
    each_store do
      in_run do |scope|
        callers = ask(scope, 1) { :value }
        @store.delete("other")
        @store.delete("key", namespace: "one")
        callers += ask(scope, 1) { flunk }
        @gate.close
        assert_equal [:value, :value], callers.map(&:value)
      end
    end
  end

  # -- callers that leave or fail

  def test_a_first_caller_that_leaves_is_replaced
    each_store do
      in_run do |scope|
        first, *others = ask(scope, 3) { @runs }
        first.cancel
        first.join
        pass_until { @runs == 2 }
        @gate.close
        assert_equal [2, 2], others.map(&:value)
      end
    end
  end

  def test_a_failure_costs_two_computations
    each_store do
      in_run do |scope|
        callers = Array.new(5) { parked(scope.spawn { raised { fetch { compute { raise IOError, "run #{@runs}" } } } }) }
        @gate.close
        assert_equal ["run 1"] + ["run 2"] * 4, callers.map { |caller| caller.value.message }
      end
      assert_nil @store.read("key")
    end
  end

  def test_the_block_sees_the_state_of_its_caller
    in_run do |scope|
      callers = %w[ann bob].map do |user|
        parked(scope.spawn do
          Fiber[:user] = Thread.current[:user] = user
          fetch { compute { [Fiber[:user], Thread.current[:user]] } }
        end)
      end
      @gate.close
      assert_equal [%w[ann ann]] * 2, callers.map(&:value), "the key has to name what the value depends on"
    end
  end

  def test_a_block_that_asks_for_its_own_key
    assert_raises(NeverBlock::Flight::CircularError) { fetch { fetch { flunk } } }
    assert_equal :fine, fetch { :fine }
  end

  # -- the store around it

  def test_what_the_request_s_local_cache_has_noted
    use remote_store
    @store.extend(ActiveSupport::Cache::Strategy::LocalCache)
    ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
    in_run do |scope|
      callers = Array.new(3) do
        parked(scope.spawn { @store.with_local_cache { Array.new(2) { fetch { compute { "value #{@runs}" } } } } })
      end
      @gate.close
      assert_equal [["value 1", "value 1"]] * 3, callers.map(&:value)
    end
    assert_equal 1, @runs
  end

  def test_its_notifications
    events = []
    record = ->(name, *, payload) { events << [name[/\w+/], payload[:hit], payload.key?(:collapse)] }
    ActiveSupport::Notifications.subscribed(record, /\Acache_/) { fetch { flunk } if fetch { :value } }
    hit = events.last(2)
    assert_equal [["cache_read", true, false], ["cache_fetch_hit", nil, false]], hit
    assert_equal 1, events.count { |name,| name == "cache_write" }
  end

  def test_a_store_that_keeps_nothing
    use ActiveSupport::Cache::NullStore.new
    in_run do |scope|
      callers = ask(scope, 3) { @runs }
      @gate.close
      assert_equal [1] * 3, callers.map(&:value)
    end
    @gate = Thread::Queue.new.close
    assert_equal 2, fetch { compute { @runs } }
  end

  def test_extended_twice
    in_run do |scope|
      callers = ask(scope, 1) { :value }
      @store.extend(NeverBlock::Cache::Collapsing)
      callers += ask(scope, 1) { flunk }
      @gate.close
      assert_equal [:value, :value], callers.map(&:value)
    end
  end

  private

  def memory_store = ActiveSupport::Cache::MemoryStore.new

  def file_store = ActiveSupport::Cache::FileStore.new(Dir.mktmpdir(nil, @folder))

  # With serialized entries, as stores of other hosts have them.
  def remote_store(**options)
    store = ActiveSupport::Cache::Store.new(**options)
    data = {}
    store.define_singleton_method(:read_entry) { |key, **given| deserialize_entry(read_serialized_entry(key, **given)) }
    store.define_singleton_method(:write_entry) { |key, entry, **given| write_serialized_entry(key, serialize_entry(entry, **given)) }
    kept = Module.new do
      define_method(:read_serialized_entry) { |key, **| data[key] }
      define_method(:write_serialized_entry) { |key, payload, **| data[key] = payload }
      define_method(:delete_entry) { |key, **| !data.delete(key).nil? }
    end
    store.extend(kept)
  end

  def use(store)
    @store = store.extend(NeverBlock::Cache::Collapsing)
  end

  def each_store
    [memory_store, file_store].each do |store|
      use store
      @runs = 0
      @gate = Thread::Queue.new
      yield
    end
  end

  def fetch(name: "key", **, &) = @store.fetch(name, collapse: true, **, &)

  # Tasks that ask for the same key, once they wait.
  def ask(scope, count, **options, &block)
    Array.new(count) { scope.spawn { fetch(**options) { compute(&block) } } }.each { |task| parked(task) }
  end

  # A computation that lasts until the gate opens.
  def compute
    @runs += 1
    @gate.pop
    yield
  end

  def write_expired(value, **options)
    at(Time.now - options[:expires_in] - 1) { @store.write("key", value, **options) }
  end

  def at(time, &) = Time.stub(:now, time, &)
end
