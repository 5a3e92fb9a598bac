# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/virtual_time"
require "stringio"

class DumpTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  # ---- Task#backtrace ----
  def test_where_a_task_waits
    in_run(exit: :cancel) do |scope|
      line = __LINE__ + 1
      task = scope.spawn { sleep }
      assert_equal [], task.backtrace, "before its first turn"
      parked(task)
      assert_includes task.backtrace.grep(/sleep/).last, "#{__FILE__}:#{line}"
      assert_equal task.backtrace, Thread.new { task.backtrace }.value
      task.cancel
      task.join
      assert_nil task.backtrace
    end
  end

  def test_where_a_task_runs
    in_run { assert(NeverBlock::Task.current.backtrace.any? { |place| place.include?(__method__.to_s) }) }
  end

  def test_inside_an_enumerator_its_calls_come_first
    in_run(exit: :cancel) do |scope|
      inner = __LINE__ + 1
      values = Enumerator.new { sleep }
      task = parked(scope.spawn { values.next })
      lines = task.backtrace.filter_map { |place| place[/dump_test.rb:(\d+)/, 1]&.to_i }
      assert_equal [inner, inner + 1], lines.uniq.select { |line| line >= inner }.sort
      assert_operator lines.index(inner), :<, lines.index(inner + 1)
    end
  end

  def test_inside_an_enumerator_that_does_not_wait
    in_run do
      inner = __LINE__ + 1
      values = Enumerator.new { |yielder| yielder << backtraces(NeverBlock::Task.current) }
      values.next.each do |backtrace|
        lines = backtrace.filter_map { |place| place[/dump_test.rb:(\d+)/, 1]&.to_i }
        assert_equal [inner, inner + 1], lines.uniq.select { |line| line.between?(inner, inner + 1) }
      end
    end
  end

  # ---- dump ----
  def test_the_tree
    text = in_run(exit: :cancel) do |scope|
      scope.spawn(name: "sleeper") { sleep 60 }
      scope.spawn(name: "holder") do
        NeverBlock.run do |outer|
          outer.spawn(name: "child") { Thread::Queue.new.pop }
          NeverBlock.run { |inner| inner.spawn(name: "grandchild") { sleep } }
        end
      end
      clock.settle
      scope.spawn(name: "new") {}
      dump
    end
    mine = text.lines.drop_while { |line| !line.include?(Thread.current.inspect) && !line.include?('"main"') }
    outline = mine.grep(/\A +(task|scope)/).map { |line| line.sub(/ old.*/m, "").sub(/, [\d.e-]+ s/, "").chomp }
    assert_equal <<-TREE.chomp.lines(chomp: true), outline.first(9)
  task "main"
    scope with 3 tasks
      task "sleeper"
      task "holder"
        scope with 1 task
          task "child"
        scope with 1 task
          task "grandchild"
      task "new"
    TREE
    assert_match(/task "sleeper", 0 s old, waits for the end of a sleep \(60s left\), spawned at #{Regexp.escape(__FILE__)}:\d+\n +.*dump_test.rb/, text)
    assert_match(/task "child".* waits for #<Thread::Queue>/, text)
    assert_match(/task "main", 0 s old, runs, /, text)
  end

  def test_every_loop_of_the_process
    gate = Thread::Queue.new
    threads = Array.new(2) { |number| Thread.new { NeverBlock.run { |scope| scope.spawn(name: "loop #{number}") { gate.pop } } } }
    wait_until("the loops") { gate.num_waiting == 2 }
    text = dump
    2.times { |number| assert_match(/task "loop #{number}", .* waits for #<Thread::Queue>/, text) }
    assert_match(/\ANeverBlock #{NeverBlock::VERSION}, process #{Process.pid}: \d+ loops\n/, text)
    threads.each { |thread| assert_includes text, "loop of #{thread.inspect}".sub(/ (run|sleep\w*)>/, "") }
    gate.close
    threads.each(&:join)
    refute_match(/"loop 0"/, dump)
  end

  def test_a_stuck_loop
    stuck = true
    line = __LINE__ + 1
    thread = Thread.new { NeverBlock.run { nil while stuck } }
    wait_until("the stuck task") { dump.include?(", runs, spawned at #{__FILE__}:#{line}\n") }
    assert_match(/, runs, .*\n +#{Regexp.escape(__FILE__)}:#{line}:/, dump)
    stuck = false
    thread.join
  end

  def test_a_standalone_scheduler
    text = standalone do
      Fiber.schedule { sleep 1 }
      dump
    end
    assert_match(/loop of .*: 2 tasks\n  task, [\d.e-]+ s old, runs/, text)
  end

  def test_a_tree_that_is_deeper_than_a_stack
    depth = 400
    text = in_run(exit: :cancel) do |scope|
      below = ->(number) { NeverBlock.run { |inner| number.zero? ? sleep : inner.spawn(number - 1, &below) } }
      scope.spawn { below.call(depth) }
      pass_until("the tree") { NeverBlock.tasks.count { |task| task.state == :running && task.waits_for } == depth + 1 }
      dump
    end
    assert_match(/^#{"  " * (2 * depth)} +scope with 0 tasks$/, text)
  end

  def test_places_in_other_encodings
    from = ->(path) { RubyVM::InstructionSequence.compile("-> { sleep }", path).eval }
    text = in_run(exit: :cancel) do |scope|
      parked(scope.spawn(name: "rates", &from.call("/caf\xE9/a.rb".b)))
      parked(scope.spawn(&from.call("/café/b.rb")))
      dump
    end
    assert_predicate text, :valid_encoding?
    assert_match(%r{task "rates", .*, spawned at /caf\uFFFD/a.rb:1$}, text)
    assert_match(%r{, spawned at /café/b.rb:1$}, text)
  end

  def test_while_tasks_come_and_go
    in_run do |scope|
      done = false
      thread = Thread.new { Array.new(50) { dump }.tap { done = true } }
      spawner = scope.spawn { NeverBlock.run { |inner| 10.times { inner.spawn { NB.pass } } } && NB.pass until done }
      spawner.join
      thread.value.each { |text| assert_match(/\ANeverBlock .*\nloop of /, text) }
    end
  end

  # ---- dump_on ----
  def test_a_signal_dumps
    output = assert_ruby(<<~RUBY)
      require "neverblock"
      reader, writer = IO.pipe
      NeverBlock.dump_on(:USR2, io: writer)
      NeverBlock.run do |scope|
        scope.spawn(name: "sleeper") { sleep 60 }
        scope.spawn { Process.kill(:USR2, Process.pid) }
        puts reader.gets("end of a sleep")
        scope.cancel
      end
    RUBY
    assert_match(/task "sleeper", .* waits for the end of a sleep\Z/, output)
  end

  def test_a_signal_dumps_a_loop_that_is_stuck_in_ruby_code
    output = assert_ruby(<<~RUBY)
      require "neverblock"
      reader, writer = IO.pipe
      NeverBlock.dump_on(:USR2, io: writer)
      NeverBlock.run do
        seen = nil
        Thread.new { seen = reader.gets(", runs") }
        Process.kill(:USR2, Process.pid)
        1 until seen # stuck
        puts seen
      end
    RUBY
    assert_match(/task "main", .* s old, runs\Z/, output)
  end

  slow "the loop asks once a second"
  def test_the_printing_thread_does_not_hide_a_deadlock
    outcome = run_ruby(<<~RUBY)
      require "neverblock"
      NeverBlock.dump_on(:USR2, io: $stdout)
      Process.kill(:USR2, Process.pid)
      NeverBlock.run { Queue.new.pop }
    RUBY
    assert_match(/DeadlockError/, outcome.stderr)
  end

  def test_the_earlier_handler_is_restored
    output = assert_ruby(<<~RUBY)
      require "neverblock"
      handled = Queue.new
      trap(:USR2) { handled << "handled" }
      p NeverBlock.dump_on(:USR2) { :value }
      Process.kill(:USR2, Process.pid)
      puts handled.pop
      p NeverBlock.dump_on(:USR2).class
      before = trap(:PROF, "IGNORE")
      trap(:PROF, before)
      NeverBlock.dump_on(:PROF) {}
      p trap(:PROF, "DEFAULT") == before
    RUBY
    assert_equal ":value\nhandled\nProc\ntrue\n", output
  end

  def test_signals_that_cannot_be_trapped
    assert_raises(SystemCallError) { NeverBlock.dump_on(:KILL) {} }
    assert_raises(ArgumentError) { NeverBlock.dump_on(:NO_SUCH) {} }
    [:EXIT, "SIGEXIT", 0].each { |exit| assert_match(/at_exit/, assert_raises(ArgumentError) { NeverBlock.dump_on(exit) {} }.message) }
  end

  def test_an_io_without_write_is_refused
    [nil, "tasks.txt", 2].each do |io|
      errors = [assert_raises(ArgumentError) { NeverBlock.dump(io) }, assert_raises(ArgumentError) { NeverBlock.dump_on(:USR2, io:) {} }]
      errors.each { |error| assert_includes error.message, "#{io.inspect} is not an IO, or something else with `write`" }
    end
  end

  private

  # From the loop's own thread, and from another one while the loop is blocked.
  def backtraces(task) = [task.backtrace, Fiber.blocking { Thread.new { task.backtrace }.value }]

  def dump = StringIO.new.tap { |io| assert_nil NeverBlock.dump(io) }.string
end
