# frozen_string_literal: true

# Every kind of wait at once, cancelled, timed out, interrupted and collected at random, for some seconds:
#
#   ruby -Ilib test/support/stress.rb SECONDS SEED
#
# Prints "survived" and the number of operations. A program of its own, so that it also runs under a sanitizer.
require "neverblock"
require "socket"
require "tempfile"
require "timeout"

# One run of it.
class Stress
  WAITS = %i[nap pass echo pipe queue_take queue_put select lock wait_for_condition thread process read_file write_file
    resolve nest time_out enumerate offload kill_own_fiber join_another two_waiters].freeze

  # Errors that random cancelling, closing and raising lead to.
  EXPECTED = [IOError, Timeout::Error, Errno::ECONNRESET, Errno::EPIPE].freeze

  def initialize(seconds, seed)
    @random = Random.new(seed)
    @end = now + seconds
    @queue = Queue.new
    @mutex = Mutex.new
    @condition = ConditionVariable.new
    @file = Tempfile.new("stress")
    @file.write("x" * 200_000)
    @file.flush
    @done = Hash.new(0)
    @failures = []
  end

  def call
    NeverBlock.run(on_error: method(:failed)) do |scope|
      @scope = scope
      @server = TCPServer.new("127.0.0.1", 0)
      servers = scope.spawn { serve }
      disturb until now > @end
      scope.tasks.each { |task| task.cancel unless task == servers }
      feed while (scope.tasks - [servers]).any?(&:alive?)
      servers.cancel
    end
    abort "failed: #{@failures.first(3).map(&:full_message).join("\n")}" if @failures.any?
    left = NeverBlock.run { Fiber.scheduler.statistics.slice(:timers, :interests, :jobs, :parked) }
    abort "left over: #{left}" unless left.values.sum <= 1 # the run's own home
    missing = WAITS - @done.keys
    abort "never came to an end: #{missing}" if missing.any?
    puts "survived #{@done.values.sum} waits"
  end

  private

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def chance(part) = @random.rand < part

  def disturb
    spawn_some
    20.times { feed }
    tasks = @scope.tasks
    3.times { tasks.sample(random: @random)&.then { |task| task.cancel if chance(0.3) && task.name } }
    parked = tasks.sample(random: @random)
    parked.fiber.raise(IOError, "stress") if chance(0.1) && parked&.name && parked.alive? && parked.waits_for && parked.fiber
    GC.start if chance(0.02)
    GC.compact if chance(0.01)
    pause(@random.rand(0.002))
  end

  def feed
    @queue << 1 if @queue.num_waiting > 0 || chance(0.05)
    @mutex.synchronize { @condition.broadcast } if chance(0.2)
    NB.pass
  end

  def spawn_some
    return NB.pass if @scope.tasks.size > 150
    @random.rand(1..15).times do
      wait = WAITS.sample(random: @random)
      @scope.spawn(name: wait.to_s) { attempt(wait) }
    end
  end

  def attempt(wait)
    send(wait)
    @done[wait] += 1
  rescue *EXPECTED
    @done[wait] += 1
  end

  def failed(error)
    @failures << error unless EXPECTED.any? { |kind| kind === error }
  end

  def serve
    loop do
      client = @server.accept
      @scope.spawn do
        client.write(client.readpartial(1000)) until client.closed?
      rescue IOError, SystemCallError
        nil
      ensure
        client.close
      end
    end
  end

  def pause(seconds) = sleep(seconds) # real: the kernel's timer

  def nap = pause(@random.rand(0.01))

  def pass = @random.rand(10).times { NB.pass }

  def echo
    TCPSocket.open("127.0.0.1", @server.local_address.ip_port) do |socket|
      5.times do |i|
        socket.write(i.to_s * 10)
        raise "wrong echo" unless socket.read(10) == i.to_s * 10
      end
    end
  end

  def pipe
    IO.pipe do |r, w|
      writer = @scope.spawn(name: "writer") { 5.times { w.write("y" * 30_000) } }
      raise "short" unless r.read(100_000).bytesize == 100_000
      writer.cancel
    end
  end

  def queue_take = @queue.pop(timeout: @random.rand(0.05))

  def queue_put = @queue << 1

  def select
    IO.pipe do |r, w|
      w.write("z") if chance(0.5)
      IO.select([r, @server], [w], nil, @random.rand(0.01))
      IO.select([r], nil, nil, @random.rand(0.01))
    end
  end

  def lock = @mutex.synchronize { pause(@random.rand(0.002)) }

  def wait_for_condition = @mutex.synchronize { @condition.wait(@mutex, 0.05) }

  def thread = Thread.new { pause(0.001) and 1 }.value == 1 || raise("no value")

  def process = chance(0.1) ? Process.wait(Process.spawn("true")) : nap

  def read_file = File.open(@file.path) { |io| io.read.bytesize == 200_000 or raise "short read" }

  def write_file = File.write(File::NULL, "w" * 100_000)

  def resolve = Addrinfo.getaddrinfo("127.0.0.1", 80)

  def nest = NeverBlock.run { |scope| 3.times { scope.spawn { pause(@random.rand(0.005)) } } }

  def time_out = Timeout.timeout(@random.rand(0.005)) { @queue.pop }

  def enumerate
    values = Enumerator.new { |y| 3.times { |i| pause(0.0005) and y << i } }
    3.times { |i| values.next == i or raise "wrong value" }
  end

  def offload = NB.offload { pause(0.001) }

  def kill_own_fiber
    fiber = Fiber.schedule { pause(0.01) }
    pause(0.001)
    fiber.kill if fiber.alive?
  end

  def join_another
    other = @scope.spawn(name: "joined") { pause(@random.rand(0.005)) }
    other.join(@random.rand(0.01))
  end

  def two_waiters
    a, b = UNIXSocket.pair
    readers = Array.new(2) { @scope.spawn(name: "reader") { a.wait_readable(1) } }
    a.wait_writable
    chance(0.5) ? b.write("x") : a.close
    readers.each { |task| task.join(1) }
  ensure
    [a, b].each { |socket| socket&.close }
  end
end

if $PROGRAM_NAME == __FILE__
  seconds, seed = ARGV
  seed = (seed || Random.new_seed % 100_000).to_i
  Stress.new(Float(seconds || 5), seed).call
end
