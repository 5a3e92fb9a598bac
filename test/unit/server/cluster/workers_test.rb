# frozen_string_literal: true

require "test_helper"
require "minitest/mock"
require "support/loops"
require "neverblock/server"
require "neverblock/server/cluster/workers"

# The workers of a cluster by their messages. The other ends of their channels stand for the processes.
class ClusterWorkersTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops

  # Stands for the Supervisor.
  class Supervisor
    attr_reader :said, :events

    def initialize
      @said, @events = [], []
    end

    def spawn(name, &) = NB.spawn(name:, &)

    def say(message, as: :info) = @said << [as, message]

    def on(event, *details) = @events << [event, *details]
  end

  # Stands for a TemplateProcess: instead of a fork, the test gets the worker's end of the channel.
  class Template
    attr_reader :forked, :workers, :signals

    def initialize
      @forked, @workers, @signals = {}, [], []
    end

    def tell(message, io)
      (@forked[message.fetch(:slot)] ||= []) << NeverBlock::Server::Cluster::Channel.new(io.dup)
      true
    end

    def signal(name) = @signals << name

    def ended? = true
  end

  Templates = Struct.new(:wait)

  def test_slots_have_the_lowest_free_numbers_in_order
    clustered(3) do |workers|
      assert_equal [0, 1, 2], workers.slots.map(&:number)
      workers.slots.delete_at(1).close
      workers.add
      assert_equal [0, 1, 2], workers.slots.map(&:number)
    end
  end

  def test_workers_serve_when_they_have_said_so
    clustered(2) do |workers|
      first, second = processes(2)
      assert_equal [true, false, false], [workers.live?, workers.ready?, workers.complete?]
      ready(first, 41)
      pass_until("the first") { workers.ready? }
      refute_predicate workers, :complete?
      ready(second, 42)
      pass_until("both") { workers.complete? }
      assert_equal [[41, 42], [41, 42]], [workers.present.map(&:pid), workers.all.map(&:pid)]
      assert_equal workers.present, @template.workers
    end
  end

  def test_a_full_worker_stands_back_while_another_has_room
    serving(2) do |_workers, first, second|
      first.send({event: "full"})
      assert_equal({do: "stand back", flag: true}, first.receive.first)
      second.send({event: "full"}) # now none has room, and both accept
      assert_equal({do: "stand back", flag: false}, first.receive.first)
      first.send({event: "room"})
      assert_equal({do: "stand back", flag: true}, second.receive.first)
    end
  end

  def test_a_worker_that_is_not_ready_in_time_is_given_up
    clustered(1, boot_timeout: 0.01) do |workers|
      process = processes(1).first
      assert_nil process.receive, "it has not been forked yet: its channel is closed"
      process.close
      pass_until("another one") { @template.forked[0].size > 1 }
      assert_includes @supervisor.said, [:error, "worker 0 was not ready after 0.01 s (boot_timeout): it is given up"]
      assert_equal :KILL, @template.signals.first, "it forks none any more"
      assert_equal "worker ended", @supervisor.events.first.first
      workers.slots.first.close
    end
  end

  def test_a_worker_that_fails_says_why
    clustered(1) do |workers|
      process = processes(1).first
      process.send({event: "failed", message: "no database"})
      process.close
      pass_until("its end") { @supervisor.events.any? }
      event, worker = @supervisor.events.first
      assert_equal ["worker ended", "no database"], [event, worker.failure]
      workers.slots.first.close
    end
  end

  def test_a_worker_that_was_asked_to_end_itself
    serving(1) do |workers, process|
      process.send({event: "asked"})
      pass_until("the event") { @supervisor.events.any? }
      assert_equal [["worker asked to end", workers.present.first]], @supervisor.events
    end
  end

  def test_the_last_slot_is_removed_but_not_the_only_one
    serving(2) do |workers, _first, second|
      workers.remove
      assert_equal({do: "stop", timeout: 60, farewell: 0}, second.receive.first)
      assert_equal [1, 2], [workers.slots.size, workers.all.size]
      second.close
      pass_until("its end") { workers.all.size == 1 }
      workers.remove
      assert_equal [[[:info, "there is one worker left, which stays; TERM ends it all"]], 1], [@supervisor.said, workers.slots.size]
    end
  end

  def test_all_are_replaced_one_after_another
    serving(2) do |workers, *old|
      replacement = NB.spawn { workers.replace(@template) }
      2.times do |number|
        pass_until("the new worker #{number}") { @template.forked[number].size == 2 }
        assert_equal [2, (number == 0) ? 1 : 2], [0, 1].map { |one| @template.forked[one].size }
        ready(@template.forked[number].last, 50 + number)
        assert_equal "stop", old[number].receive.first[:do]
        old[number].close
      end
      assert_equal [2, [50, 51]], [replacement.value, workers.present.map(&:pid)]
    end
  end

  def test_without_a_descriptor_none_is_started
    clustered(0) do |workers|
      failing = ->(*) { raise Errno::EMFILE }
      NeverBlock::Server::Cluster::Channel.stub(:pair, failing) { assert_nil workers.start(NeverBlock::Server::Cluster::Slot.new(3, workers), @template) }
      assert_match(/\Aworker 3 can't be started: Too many open files; it is tried again\z/, @supervisor.said.first.last)
    end
  end

  [true, false].each do |whole|
    define_method(:"test_the_end_of_all_where_requests_were_#{whole ? "finished" : "cancelled"}") do
      serving(2) do |workers, *processes|
        stop = NB.spawn { workers.stop }
        processes.each { |process| assert_equal "stop", process.receive.first[:do] }
        processes.last.send({event: "stopped", whole: false}) unless whole
        processes.each(&:close)
        assert_equal [whole, []], [stop.value, workers.present]
      end
    end
  end

  # Those of the previous program, of which one is leaving, and its configuration had fewer.
  def test_workers_of_the_previous_program_are_taken_over
    ends = Array.new(2) { NeverBlock::Server::Cluster::Channel.pair }
    handover = Object.new
    handover.define_singleton_method(:each_worker) do |&block|
      block.call(0, nil, ends[0].first, 71, false)
      block.call(1, nil, ends[1].first, 72, true)
    end
    clustered(0, worker_count: 2) do |workers|
      workers.adopt(handover)
      assert_equal [[71], [71, 72], [0, 1]], [workers.present.map(&:pid), workers.all.map(&:pid), workers.slots.map(&:number)]
      ready(processes(1, from: 1).first, 73)
      pass_until("the missing one") { workers.complete? }
      ends.each { |_, process| process.close }
      pass_until("the end of those") { workers.all.filter_map(&:pid) == [73] }
      pass_until("another one in its place") { @template.forked[0] }
      workers.slots.each(&:close)
    end
  end

  private

  # @yieldparam workers [Workers]
  def clustered(count, boot_timeout: 60, worker_count: count)
    configuration = {boot_timeout:, shutdown_timeout: 60}
    configuration.define_singleton_method(:worker_count) { worker_count }
    @supervisor, @template = Supervisor.new, Template.new
    in_loop(exit: :cancel) do
      workers = NeverBlock::Server::Cluster::Workers.new(configuration, @supervisor, Templates.new(@template))
      count.times { workers.add }
      yield workers
    end
  ensure
    @template&.forked&.each_value { |channels| channels.each { |channel| channel.close unless channel.io.closed? } }
  end

  # @return [Array<Channel>] the ends of so many workers
  def processes(count, from: 0)
    pass_until("#{count} workers") { (from...from + count).all? { |number| @template.forked[number] } }
    (from...from + count).map { |number| @template.forked[number].last }
  end

  def ready(process, pid) = process.send({event: "ready", pid:})

  def serving(count)
    clustered(count) do |workers|
      ends = processes(count)
      ends.each_with_index { |process, number| ready(process, 41 + number) }
      pass_until("all of them") { workers.complete? }
      ends.each { |process| assert_equal({do: "stand back", flag: false}, process.receive.first) } # in the beginning
      yield workers, *ends
    end
  end
end
