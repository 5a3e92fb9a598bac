# frozen_string_literal: true

require "test_helper"
require "support/loops"
require "neverblock/server"
require "neverblock/server/cluster/worker_monitor"

# Which workers are replaced for their silence, their memory or their requests.
class ClusterWorkerMonitorTest < Minitest::Test
  include NeverBlockTest::Loops

  Worker = Struct.new(:name, :silence, :stats, :ready, :leaving, :debugged, :signals, :excused) do
    def ready? = ready
    def leaving? = leaving == true
    def debugged? = debugged == true
    def leaving! = self.leaving = true
    def signal(name) = signals << name
    def kill = signals << :kill
    def excuse(seconds) = self.excused = seconds
    def wait_end(_seconds) = false
    def to_s = name
  end

  # Stands for the Supervisor.
  class Supervisor
    attr_reader :workers, :said, :recycled
    attr_accessor :succeeds

    def initialize(workers)
      @workers, @said, @recycled, @succeeds = workers, [], [], true
    end

    def say(message, as: :info) = @said << [as, message]

    def spawn(name, &) = NB.spawn(name:, &)

    def recycle(worker) = (@recycled << worker) && @succeeds
  end

  def test_without_limits_nothing_is_watched
    assert_nil monitor({}, []).run
  end

  def test_a_silent_worker_is_asked_for_its_backtraces_and_killed
    silent, alive, held, gone = worker("a", silence: 61), worker("b", silence: 59), worker("c", silence: 61, debugged: true), worker("d", silence: 61, leaving: true)
    young = worker("e", silence: 61, ready: false)
    look({worker_timeout: 60}, [silent, alive, held, gone, young], late: 0.5)
    assert_equal [[:QUIT, :kill], [], [], [], []], [silent, alive, held, gone, young].map(&:signals)
    assert_predicate silent, :leaving?
    assert_equal [[:error, "a has been silent for 61 s (worker_timeout): it is asked for its backtraces, then replaced"]], @supervisor.said
    assert_equal [0.5] * 4, [silent, alive, held, gone].map(&:excused)
  end

  def test_a_worker_is_recycled_for_its_requests
    full, new = worker("a", stats: {answered: 1_200}), worker("b", stats: {answered: 800})
    look({recycle_requests: 1_000}, [new, full])
    assert_equal [[full], [[:info, "a has answered 1200 requests: it is replaced"]]], [@supervisor.recycled, @supervisor.said]
  end

  def test_a_worker_is_recycled_for_its_memory
    large = worker("a", stats: {memory: 300 << 20})
    look({recycle_memory: 200 << 20}, [worker("b", stats: {memory: 100 << 20}), large])
    assert_equal [[large], [[:info, "a takes 300 MiB: it is replaced"]]], [@supervisor.recycled, @supervisor.said]
  end

  def test_one_at_a_time_is_recycled
    workers = Array.new(2) { |n| worker(n.to_s, stats: {answered: 2_000}) }
    release = Thread::Queue.new
    in_loop do
      monitor = monitor({recycle_requests: 1_000}, workers, looks: 3) { NB.pass }
      @supervisor.define_singleton_method(:recycle) { |worker| super(worker) && release.pop && worker.leaving! }
      monitor.run
      assert_equal [workers.first], @supervisor.recycled
      release << true
    end
  end

  # The next one could not be replaced either.
  def test_recycling_pauses_after_a_failure
    worker = worker("a", stats: {answered: 2_000})
    in_loop do
      monitor = monitor({recycle_requests: 1_000}, [worker], looks: 3) { NB.pass }
      @supervisor.succeeds = false
      monitor.run
    end
    assert_equal [worker], @supervisor.recycled
  end

  def test_limits_differ_a_little_from_worker_to_worker
    monitor = monitor({recycle_requests: 1_000}, [])
    limits = Array.new(100) { monitor.send(:jittered, 1_000) }
    assert_operator limits.uniq.size, :>, 10
    assert_empty limits.reject { |limit| limit.between?(900, 1_100) }
    assert_nil monitor.send(:jittered, nil)
  end

  private

  def worker(name, silence: 0, stats: {}, ready: true, leaving: false, debugged: false) = Worker.new(name, silence, stats, ready, leaving, debugged, [])

  # @yield after each look
  def monitor(configuration, workers, looks: 1, late: 0, &after)
    @supervisor = Supervisor.new(workers)
    NeverBlock::Server::Cluster::WorkerMonitor.new(configuration, @supervisor, random: Random.new(1)).tap do |monitor|
      done = 0
      monitor.define_singleton_method(:rest) do
        after&.call if done > 0
        raise StopIteration if (done += 1) > looks
        late
      end
    end
  end

  # One look, and all that follows from it.
  def look(configuration, workers, late: 0) = in_loop { monitor(configuration, workers, late:).run }
end
