# frozen_string_literal: true

# engines: every - each back end has limits of its own

require "test_helper"
require "support/loops"

# Limits of the system: memory maps, descriptors, memory.
class LimitsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops

  MAPS = "/proc/sys/vm/max_map_count"

  # Each fiber's stack takes two of the process's memory maps.
  slow "as many as there can be"
  def test_more_fibers_than_the_kernel_can_map
    skip "this system has no vm.max_map_count" unless File.exist?(MAPS)
    skip "vm.max_map_count is raised here: #{File.read(MAPS)}" if File.read(MAPS).to_i > 70_000
    output = assert_ruby(<<~RUBY)
      require "neverblock"
      begin
        NeverBlock.run { |scope| 40_000.times { scope.spawn { sleep } } }
      rescue NeverBlock::ResourceLimitError => error
        puts error.message, error.is_a?(NeverBlock::Error)
      end
      NeverBlock.run { puts NB.spawn { Queue.new.pop(timeout: 0.001) || "goes on" }.value }
    RUBY
    assert_match(/vm\.max_map_count.*sysctl -w/, output.lines[0])
    assert_equal "true\ngoes on\n", output.lines[1..].join
  end

  slow "as many as there can be"
  def test_that_limit_with_a_standalone_scheduler
    skip "this system has no vm.max_map_count" unless File.exist?(MAPS)
    skip "vm.max_map_count is raised here: #{File.read(MAPS)}" if File.read(MAPS).to_i > 70_000
    assert_match(/vm\.max_map_count.*sysctl -w/, assert_ruby(<<~RUBY))
      require "neverblock"
      begin
        Thread.new do
          Thread.current.report_on_exception = false
          Fiber.set_scheduler(NeverBlock::Scheduler.new)
          40_000.times { Fiber.schedule { sleep } }
        end.join
      rescue NeverBlock::ResourceLimitError => error
        puts error.message
      end
    RUBY
  end

  slow "as many as there can be"
  def test_a_hundred_thousand_short_tasks_in_bounded_memory
    output = assert_ruby(<<~'RUBY')
      require "neverblock"
      def memory = File.exist?("/proc/self/status") ? File.read("/proc/self/status")[/VmRSS:\s+(\d+)/, 1].to_i : 0
      def maps = File.exist?("/proc/self/maps") ? File.foreach("/proc/self/maps").count : 0
      NeverBlock.run { |scope| 1_000.times { scope.spawn { sleep 0 } } }
      memory_before, maps_before, done = memory, maps, 0
      NeverBlock.run do |scope|
        100.times do |i|
          1_000.times { scope.spawn { sleep 0 and done += 1 } }
          NB.pass until done == (i + 1) * 1_000
        end
      end
      NeverBlock.run { |scope| 100_000.times { scope.spawn { done += 1 } } }
      puts done, (memory - memory_before) / 1024, maps - maps_before
    RUBY
    done, mebibytes, maps = output.lines.map(&:to_i)
    assert_equal 200_000, done
    assert_operator mebibytes, :<, 400
    assert_operator maps, :<, 20_000
  end

  # Ruby bug 21955: stacks of fibers that ended after a transfer were freed by garbage collection only.
  slow "as many as there can be"
  def test_short_tasks_without_any_garbage_collection
    assert_equal "60000\n", assert_ruby(<<~RUBY)
      require "neverblock"
      done = 0
      NeverBlock.run do |scope|
        GC.disable
        60.times do |i|
          1_000.times { scope.spawn { sleep 0 and done += 1 } }
          NB.pass until done == (i + 1) * 1_000
        end
      end
      puts done
    RUBY
  end

  def test_no_more_descriptors
    output = assert_ruby(<<~RUBY)
      require "neverblock"
      require "tempfile"
      NeverBlock.run { NB.pass }
      files, errors = [], []
      Process.setrlimit(:NOFILE, 40)
      NeverBlock.run do
        r, w = IO.pipe
        reader = NB.spawn { r.readpartial(1) }
        NB.pass
        begin
          loop { files << File.open(File::NULL) }
        rescue Errno::EMFILE => error
          errors << error.class
        end
        errors << (begin; NeverBlock::Scheduler.new; rescue NeverBlock::ResourceLimitError => error; error.message[/Too many open files/]; end)
        errors << system("true") # nil, as always if the program could not be started
        errors << (begin; Thread.new { NeverBlock.run { 1 } }.tap { |t| t.report_on_exception = false }.value; rescue NeverBlock::Error, SystemCallError => error; error.message[/Too many open files/]; end)
        w << "x"
        errors << reader.value
        NB.pass
      end
      files.each(&:close)
      NeverBlock.run { errors << NB.spawn { File.read(File::NULL) }.value }
      p errors
    RUBY
    assert_equal %([Errno::EMFILE, "Too many open files", nil, "Too many open files", "x", ""]\n), output
  end

  def test_a_process_is_waited_for_without_a_free_descriptor
    assert_equal "[0, 3]\n", assert_ruby(<<~RUBY)
      require "neverblock"
      p(NeverBlock.run do
        reader, writer = IO.pipe
        pids = [0, 3].map { |status| spawn("read line; exit \#{status}", in: reader) }
        files = []
        Process.setrlimit(:NOFILE, 40)
        begin
          loop { files << File.open(File::NULL) }
        rescue Errno::EMFILE
          nil
        end
        statuses = pids.map { |pid| NB.spawn { Process.wait2(pid).last.exitstatus } }
        NB.pass until statuses.all? { |task| task.waits_for && task.state == :running }
        writer.puts(1, 2)
        statuses.map(&:value)
      end)
    RUBY
  end

  # ---- allocations ----
  # Our allocations per wait: none. The second number has those of core around some hooks.
  {
    "sleep(0)" => [->(_, _) { sleep(0) }, 0],
    "sleep of a moment" => [->(_, _) { sleep(0.00001) }, 1], # real: the kernel's timer
    "pass" => [->(_, _) { NB.pass }, 0],
    "yield" => [->(_, _) { Fiber.scheduler.yield }, 0],
    "io_wait that is ready" => [->(ready, _) { Fiber.scheduler.io_wait(ready, IO::READABLE, nil) }, 0],
    "io_wait that times out" => [->(_, never) { Fiber.scheduler.io_wait(never, IO::READABLE, 0.00001) }, 0],
    "block that times out" => [->(_, _) { Fiber.scheduler.block(:x, 0.00001) }, 0]
  }.each do |name, (wait, allowed)|
    define_method("test_objects_per_#{name.tr(" ()", "_")}") do
      pairs = [IO.pipe, IO.pipe]
      pairs[0][1] << "x"
      ready, never = pairs[0][0], pairs[1][0]
      standalone do
        20.times { wait.call(ready, never) }
        assert_operator objects_per_call(500) { wait.call(ready, never) }, :<=, allowed + 0.05
      end
      pairs.flatten.each(&:close)
    end
  end

  def test_objects_per_queue_hop
    in_loop do
      ping, pong = Queue.new, Queue.new
      NB.spawn { 3_000.times { pong << ping.pop } }
      hop = proc { ping << 1 and pong.pop }
      20.times(&hop)
      assert_operator objects_per_call(500, &hop), :<=, 0.05
      1_480.times(&hop)
    end
  end

  def test_waits_map_no_memory
    in_loop do
      r, w = IO.pipe
      echo = NB.spawn { 4_000.times { r.readpartial(1) } }
      step = proc { w.write("x") and sleep(0) }
      1_000.times(&step)
      GC.start
      before = GC.stat(:malloc_increase_bytes)
      # core allocates a buffer object and a string per read; ours would be added in each step
      bytes = 1_000.times(&step).then { GC.stat(:malloc_increase_bytes) - before }
      assert_operator bytes, :<, 1_000 * 1_000
      2_000.times(&step)
      echo.join
    end
  end
end
