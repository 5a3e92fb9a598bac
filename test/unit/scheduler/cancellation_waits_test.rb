# frozen_string_literal: true

# engines: every - a cancelled wait is withdrawn from the back end

require "test_helper"
require "support/runs"
require "support/virtual_time"
require "monitor"
require "tempfile"

# A task that is cancelled in each kind of wait: its ensures run, and may wait.
class CancellationWaitsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  # Every kind of wait; each gets a bag for objects that must outlive the task.
  WAITS = {
    "sleep without end" => -> { sleep },
    "sleep with an end" => -> { sleep 60 },
    "pass, in a loop" => -> { loop { NB.pass } },
    "sleep(0), in a loop" => -> { loop { sleep 0 } },
    "Mutex#lock" => ->(bag) { Thread::Mutex.new.tap { |mutex| bag << mutex && Fiber.schedule { mutex.synchronize { sleep } } }.lock },
    "Mutex#sleep" => -> { Thread::Mutex.new.then { |mutex| mutex.synchronize { mutex.sleep } } },
    "Monitor#enter" => ->(bag) { Monitor.new.tap { |monitor| bag << monitor && Fiber.schedule { monitor.synchronize { sleep } } }.enter },
    "Queue#pop" => -> { Thread::Queue.new.pop },
    "Queue#pop with a timeout" => -> { Thread::Queue.new.pop(timeout: 60) },
    "SizedQueue#push" => -> { Thread::SizedQueue.new(1).then { |queue| 2.times { queue << 1 } } },
    "ConditionVariable#wait" => -> { Thread::Mutex.new.then { |mutex| mutex.synchronize { Thread::ConditionVariable.new.wait(mutex) } } },
    "Thread#join" => ->(bag) { Thread.new { sleep }.tap { |thread| bag << thread }.join },
    "Thread#value" => ->(bag) { Thread.new { sleep }.tap { |thread| bag << thread }.value },
    "IO#read of a pipe" => ->(bag) { IO.pipe.tap { |pipe| bag.concat(pipe) }.first.read },
    "IO#gets" => ->(bag) { IO.pipe.tap { |pipe| bag.concat(pipe) }.first.gets },
    "IO#write to a full pipe" => ->(bag) { IO.pipe.tap { |pipe| bag.concat(pipe) }.last.write("x" * 1_000_000) },
    "IO#wait_readable" => ->(bag) { IO.pipe.tap { |pipe| bag.concat(pipe) }.first.wait_readable },
    "IO#wait_readable with a timeout" => ->(bag) { IO.pipe.tap { |pipe| bag.concat(pipe) }.first.wait_readable(60) },
    "IO.select" => ->(bag) { IO.select([IO.pipe.tap { |pipe| bag.concat(pipe) }.first], nil, nil, 60) },
    "UNIXSocket#recv" => ->(bag) { UNIXSocket.pair.tap { |pair| bag.concat(pair) }.first.recv(1) },
    "TCPServer#accept" => ->(bag) { TCPServer.new("127.0.0.1", 0).tap { |server| bag << server }.accept },
    "UDPSocket#recvfrom" => ->(bag) { UDPSocket.new.tap { |socket| bag << socket && socket.bind("127.0.0.1", 0) }.recvfrom(1) },
    "Process.wait" => ->(bag) { Process.wait(Process.spawn("exec sleep 60").tap { |pid| bag << pid }) },
    "Task#join" => -> { NB.spawn { sleep }.join },
    "Task#value" => -> { NB.spawn { sleep }.value },
    "a nested run's end" => -> { NeverBlock.run { |scope| scope.spawn { sleep } } },
    "FiberPool#drain" => -> { NB::FiberPool.new(1).tap { |pool| pool.spawn { sleep } }.drain },
    "Semaphore#acquire" => -> { NB::Semaphore.new(1).tap(&:acquire).acquire },
    "concurrently" => -> { NeverBlock.concurrently(1.., limit: 3) { sleep } },
    "race" => -> { NeverBlock.race(-> { sleep }, -> { sleep }) },
    "Timeout.timeout" => -> { Timeout.timeout(60) { sleep } },
    "Enumerator#next" => -> { Enumerator.new { sleep }.next },
    "Fiber#resume" => -> { Fiber.new { sleep }.resume },
    "offload" => ->(bag) { Thread::Queue.new.then { |gate| bag << gate && NB.offload { gate.pop } } },
    "an offloaded call that waits for a place" => lambda do |bag|
      gate = Thread::Queue.new
      bag << gate
      40.times { NB.spawn { NB.offload { gate.pop } } }
      NB.pass
      NB.offload { gate.pop }
    end,
    "open of a FIFO" => lambda do |bag|
      path = "#{Dir.tmpdir}/neverblock-fifo-#{Process.pid}-#{rand(1 << 40)}"
      File.mkfifo(path)
      bag << path
      (RUBY_VERSION < "3.4") ? sleep : File.open(path, "r") # 3.3 has no hook for it
    end,
    "File#flock" => lambda do |bag|
      file = Tempfile.create
      bag << file
      holder = File.open(file.path).tap { |handle| bag << handle && handle.flock(File::LOCK_EX) }
      File.open(file.path) { |handle| handle.flock(File::LOCK_EX) } && holder
    end
  }.freeze

  WAITS.each do |name, wait|
    define_method("test_in_#{name.gsub(/\W+/, "_")}") do
      bag, log = [], []
      in_run(exit: :cancel) do |scope|
        task = scope.spawn do
          wait.arity.zero? ? wait.call : wait.call(bag)
          log << :went_on
        rescue NeverBlock::Cancelled
          log << :cancelled
          raise
        ensure
          sleep 0.001 # ensures may wait
          log << :ensure
        end
        NB.pass # a task that never stops to run would stop virtual time
        loops = name.include?("loop")
        pass_until("#{name} to wait") { loops ? task.state == :running : task.state == :running && task.waits_for }
        2.times { NB.pass }
        assert_equal true, task.cancel
        assert_kind_of NeverBlock::Cancelled, raised { task.value }
        assert_equal %i[cancelled ensure], log
        assert_equal :cancelled, task.state
        assert_equal false, task.cancel
      end
    ensure
      clear(bag)
    end
  end

  private

  def clear(bag)
    bag.each do |thing|
      case thing
      when Thread then thing.kill.join
      when Thread::Queue then thing.close
      when Integer then Process.kill(:KILL, thing) && (Process.wait(thing) rescue nil) # standard:disable Style/RescueModifier
      when String then File.unlink(thing)
      when File then thing.close && File.exist?(thing.path) && File.unlink(thing.path)
      when IO then thing.close
      end
    end
  end
end
