# frozen_string_literal: true

# engines: every - a signal ends the back end's wait

require "test_helper"
require "support/runs"

# Exceptions and signals that end the program pass through run. Each in a process of its own.
class RunInterruptedTest < Minitest::Test
  include NeverBlockTest::Helpers

  # Begins each program. A wait for ever could count as a deadlock.
  BEGINNING = <<~RUBY
    $stdout.sync = true
    def idle = sleep(3600) # real: the test's signal ends it
  RUBY

  def program(code, **) = run_ruby("require \"neverblock\"\n#{BEGINNING}#{code}", **)

  # Starts a program and sends it signals, one after each line of its output, until the line "over". Its input ends when
  # no more signals follow.
  # @param patience [Numeric, nil] seconds after which all but the first are sent without a line; nil: none are
  def interrupt(code, *signals, engine: nil, patience: nil)
    libraries = [*ENV["NEVERBLOCK_TEST_LIBRARY"], File.join(NeverBlockTest::ROOT, "lib")].flat_map { |folder| ["-I", folder] }
    bare, *ruby = BARE
    environment = engine ? {**bare, "NEVERBLOCK_ENGINE" => engine} : bare
    Open3.popen3(environment, *ruby, *libraries, "-rneverblock", "-e", "#{BEGINNING}#{code}") do |input, output, errors, process|
      lines = []
      signals.each do |signal|
        if output.wait_readable((lines.any? && patience) || NeverBlockTest::LIMIT)
          lines << output.gets
          break if [nil, "over\n"].include?(lines.last) # nil: the program has ended
        else
          assert lines.any? && patience, "no line before SIG#{signal}: #{lines}"
        end
        Process.kill(signal, process.pid)
      rescue Errno::ESRCH
        break
      end
      input.close
      unless process.join(NeverBlockTest::LIMIT)
        Process.kill(:KILL, process.pid)
        flunk "it did not end after #{signals}: #{lines} #{output.read}"
      end
      return NeverBlockTest::Helpers::Outcome.new(lines.join + output.read, errors.read, process.value)
    ensure
      Process.kill(:KILL, process.pid) if process.alive? # popen3 waits for the program's end
    end
  end

  # The same with Ctrl-C, for a run that waits beside tasks.
  # @param tasks [String] code that spawns them in `scope`
  def interrupt_beside(tasks)
    interrupt(<<~RUBY, :INT)
      begin
        NeverBlock.run do |scope|
          #{tasks}
          NB.pass
          puts "ready"
          idle
        end
      rescue Interrupt
        puts "interrupted"
      end
    RUBY
  end

  # A signal that arrives while the task itself runs is swallowed by its own rescue, as in plain Ruby; so signals are
  # repeated, one for each line, until the task has ended.
  slow "it starts Ruby several times"
  def test_repeated_ctrl_c_abandons_tasks_that_rescue_everything
    outcome = interrupt(<<~RUBY, *[:INT] * 300)
      talking = nil
      NeverBlock.run do
        talking ||= Thread.new { loop { sleep 0.05; puts "waiting" } } # real: the task is back in its wait
        idle
      rescue Exception
        retry
      end
    RUBY
    assert_equal Signal.list["INT"], outcome.status.termsig
    assert_operator outcome.stdout.lines.size, :>=, 3
  end

  def test_exit_in_a_task_runs_the_ensures_and_ends_the_program_with_its_status
    outcome = program(<<~RUBY)
      at_exit { puts "at_exit" }
      NeverBlock.run do |scope|
        scope.spawn { begin; sleep; ensure; NB.pass; puts "ensure"; end }
        scope.spawn { NB.pass; exit 3 }
        sleep
      end
      puts "never"
    RUBY
    assert_equal ["ensure\nat_exit\n", "", 3], [outcome.stdout, outcome.stderr, outcome.status.exitstatus]
  end

  slow "it starts Ruby several times"
  def test_exit_in_the_block_in_a_nested_run_and_with_on_error_report
    [
      "NeverBlock.run { exit 3 }",
      "NeverBlock.run { NeverBlock.run { |scope| scope.spawn { exit 3 }; sleep } }",
      "NeverBlock.run(on_error: :report) { |scope| scope.spawn { exit 3 }; sleep }",
      "NeverBlock.run(on_error: ->(_) { puts :reported }) { NeverBlock.run(on_error: ->(_) { puts :reported }) { |scope| scope.spawn { exit 3 }; sleep } }",
      "NeverBlock.run { |scope| scope.spawn { exit 3 }.value }",
      "NeverBlock.concurrently([1, 2]) { |n| n == 2 ? exit(3) : sleep }",
      "NeverBlock.race(-> { exit 3 }, -> { sleep })",
      "NeverBlock.run { Timeout.timeout(60) { exit 3 } }",
      "NeverBlock.run { Enumerator.new { exit 3 }.next }",
      "NeverBlock.run { Fiber.schedule { exit 3 }; sleep }",
      "NeverBlock.run { NB::FiberPool.new(1).spawn { exit 3 }; sleep }"
    ].each do |code|
      outcome = program("#{code}\nputs :never")
      assert_equal ["", "", 3], [outcome.stdout, outcome.stderr, outcome.status.exitstatus], code
    end
  end

  def test_abort_prints_and_exits_with_one
    outcome = program('NeverBlock.run { |scope| scope.spawn { abort "broken" }; sleep }')
    assert_equal ["broken\n", 1], [outcome.stderr, outcome.status.exitstatus]
  end

  def test_exit_with_a_bang_ends_at_once
    outcome = program('NeverBlock.run { |scope| scope.spawn { begin; sleep; ensure; puts "ensure"; end }; NB.pass; exit!(4) }')
    assert_equal ["", 4], [outcome.stdout, outcome.status.exitstatus]
  end

  def test_an_error_is_printed_as_ruby_prints_it
    outcome = program('NeverBlock.run { |scope| scope.spawn { raise IOError, "broken" }; sleep }')
    assert_match(/-:4:in .*broken \(IOError\)/, outcome.stderr)
    assert_equal 1, outcome.status.exitstatus
  end

  def test_exit_can_be_rescued_around_run
    outcome = program("begin; NeverBlock.run { |scope| scope.spawn { exit 3 }; sleep }; rescue SystemExit => e; puts e.status; end; p NeverBlock.run { 1 }")
    assert_equal ["3\n1\n", 0], [outcome.stdout, outcome.status.exitstatus]
  end

  # ---- signals ----
  def test_ctrl_c_in_an_idle_loop
    outcome = interrupt(<<~RUBY, :INT)
      begin
        NeverBlock.run do |scope|
          scope.spawn { begin; idle; ensure; NB.pass; puts "task"; end }
          NeverBlock.run { begin; NB.pass; puts "ready"; idle; ensure; puts "block"; end }
        end
      rescue Interrupt
        puts "interrupted"
      end
    RUBY
    assert_equal %w[block interrupted ready task], outcome.stdout.lines(chomp: true).sort
    assert_predicate outcome.status, :success?, outcome.stderr
  end

  def test_ctrl_c_in_a_busy_loop
    ["loop {}", "loop { NB.pass }", "loop { sleep 0 }"].each do |busy|
      outcome = interrupt(<<~RUBY, :INT)
        begin
          NeverBlock.run do |scope|
            scope.spawn { begin; idle; ensure; puts "ensure"; end }
            NB.pass
            puts "ready"
            scope.spawn { #{busy} }.value
          end
        rescue Interrupt
          puts "interrupted"
        end
      RUBY
      assert_equal "ready\nensure\ninterrupted\n", outcome.stdout, busy + outcome.stderr
    end
  end

  def test_unrescued_ctrl_c_ends_the_program_as_ruby_does
    outcome = interrupt("NeverBlock.run { puts :ready; idle }", :INT)
    assert_equal Signal.list["INT"], outcome.status.termsig
    outcome = interrupt("NeverBlock.run { puts :ready; idle }", :TERM)
    assert_equal Signal.list["TERM"], outcome.status.termsig
  end

  STUBBORN = <<~RUBY
    begin
      NeverBlock.run do |scope|
        scope.spawn { NB.shield { begin; WAIT; ensure; puts "shielded"; end } }
        NeverBlock.run do |inner|
          inner.spawn { NB.shield { begin; WAIT; ensure; puts "nested"; end } }
          inner.spawn { begin; idle; ensure; begin; puts "first"; WAIT; ensure; puts "second"; end; end }
          NB.pass
          puts "ready"
          idle
        end
      end
    rescue Interrupt
      puts "interrupted"
    end
  RUBY

  def test_a_second_ctrl_c_forces_shields_and_ensures
    outcome = interrupt(STUBBORN.gsub("WAIT", "idle"), :INT, :INT)
    lines = outcome.stdout.lines(chomp: true)
    assert_equal %w[ready first], lines.first(2), outcome.stderr
    assert_equal %w[nested second shielded], lines[2..4].sort
    assert_equal %w[interrupted], lines[5..]
  end

  # Each signal lands in some task, perhaps during its puts, whose line is lost then. A third one waits for no ensure
  # block. The last one may arrive after the end.
  def test_ctrl_c_ends_stubborn_tasks_in_a_busy_loop
    # Two late signals can come at once: the second one in the rescue of the first one.
    last_words = 'begin; begin; trap(:INT, "IGNORE"); rescue Interrupt; retry; end; rescue Interrupt; retry; end; puts "over", "interrupted"'
    program = STUBBORN.gsub("WAIT", "loop { NB.pass }").sub('puts "interrupted"', last_words)
    outcome = interrupt(program, *[:INT] * 10, patience: 2)
    assert_predicate outcome.status, :success?, outcome.stderr
    assert_match(/\Aready\n/, outcome.stdout)
    assert_match(/interrupted\n\z/, outcome.stdout)
  end

  # R6 of the runtime's review: the program never ended. Each prints a line after the first signal.
  {
    "a task that rescues everything and tries again" => 'begin; idle; rescue Exception; puts "again"; retry; end',
    "a shield" => 'NB.spawn { begin; idle; ensure; puts "cancelled"; end }; NB.shield { NB.pass; loop { begin; idle; rescue Exception; end } }',
    "an ensure that waits" => 'begin; idle; ensure; puts "ensure"; loop { begin; idle; rescue Exception; end }; end',
    "a nested run in a shield" => 'NB.spawn { begin; idle; ensure; puts "cancelled"; end }; NB.shield { NeverBlock.run { |s| s.spawn { loop { begin; idle; rescue Exception; end } } } }',
    "an operation of core that hangs" => 'NB.spawn { begin; idle; ensure; puts "cancelled"; end }; NeverBlock::ThreadPool.operations.call(leave: :at_end) { sleep }',
    "a wait for a lock" => 'lock = Mutex.new; NB.spawn { lock.lock; begin; idle; rescue Exception; retry; end }; NB.pass; begin; lock.lock; rescue Exception; puts "again"; retry; end',
    "an offload in an offload" => 'NB.spawn { begin; idle; ensure; puts "cancelled"; end }; NB.offload { NeverBlock.run { NB.shield { NB.offload { sleep } } } }'
  }.each do |name, code|
    slow "a second of patience"
    define_method("test_a_second_term_ends_the_program_in_spite_of_#{name.tr(" ", "_")}") do
      outcome = interrupt(<<~RUBY, :TERM, :TERM)
        NeverBlock.run { |scope| scope.spawn { #{code} }; NB.pass; NB.pass; puts "ready"; idle }
      RUBY
      assert_equal Signal.list["TERM"], outcome.status.termsig, outcome.stderr
    end
  end

  # Regression: the loop never ended.
  def test_a_third_term_ends_the_program_at_once
    outcome = interrupt(<<~RUBY, :TERM, :TERM, :TERM)
      NeverBlock.run { |scope| scope.spawn { begin; idle; rescue Exception; puts "again"; retry; end }; NB.pass; puts "ready"; idle }
    RUBY
    assert_equal Signal.list["TERM"], outcome.status.termsig, outcome.stderr
  end

  slow "it starts Ruby several times"
  def test_one_term_ends_a_program_whose_offloaded_calls_never_return
    ["NB.offload { sleep }", "NB.offload { loop {} }", "NB.offload { NB.run { NB.offload { sleep } } }"].each do |code|
      outcome = interrupt(<<~RUBY, :TERM)
        NeverBlock.run { |scope| 20.times { scope.spawn { #{code} } }; NB.pass until NeverBlock::ThreadPool.offload.stats[:threads].positive?; puts "ready"; idle }
      RUBY
      assert_equal Signal.list["TERM"], outcome.status.termsig, outcome.stderr
    end
  end

  slow "it starts Ruby several times"
  def test_one_ctrl_c_waits_for_shields
    outcome = interrupt(<<~RUBY, :INT)
      begin
        NeverBlock.run do |scope|
          outer_cancelled, inner_cancelled = Queue.new, Queue.new
          scope.spawn { NB.shield { outer_cancelled.pop; puts "committed" }; idle; puts "never" }
          scope.spawn { begin; idle; ensure; outer_cancelled.close; end }
          NeverBlock.run do |inner|
            inner.spawn { NB.shield { inner_cancelled.pop; puts "committed" } }
            inner.spawn { begin; idle; ensure; inner_cancelled.close; end }
            NB.pass
            puts "ready"
            idle
          end
        end
      rescue Interrupt
        puts "interrupted"
      end
    RUBY
    assert_equal "ready\ncommitted\ncommitted\ninterrupted\n", outcome.stdout, outcome.stderr
  end

  def test_later_errors_are_attached_to_the_interrupt
    outcome = interrupt(<<~RUBY, :INT)
      begin
        NeverBlock.run do |scope|
          scope.spawn { begin; idle; ensure; raise "ensure"; end }
          NB.pass
          puts "ready"
          idle
        end
      rescue Interrupt => error
        p error.errors
      end
    RUBY
    assert_equal "ready\n[#<RuntimeError: ensure>]\n", outcome.stdout, outcome.stderr
  end

  def test_trap_handlers_run_and_may_wake_a_task
    outcome = interrupt(<<~RUBY, :USR1)
      queue = Queue.new
      trap(:USR1) { queue << :trapped }
      NeverBlock.run { |scope| scope.spawn { idle }.then { |t| puts "ready"; p queue.pop; t.cancel } }
    RUBY
    assert_equal "ready\n:trapped\n", outcome.stdout, outcome.stderr
  end

  def test_trap_handlers_that_raise_or_exit
    outcome = interrupt("trap(:USR1) { exit 7 }; NeverBlock.run { begin; puts :ready; idle; ensure; puts :ensure; end }", :USR1)
    assert_equal ["ready\nensure\n", 7], [outcome.stdout, outcome.status.exitstatus], outcome.stderr
    outcome = interrupt("trap(:USR1) { raise IOError, 'trap' }; begin; NeverBlock.run { puts :ready; idle }; rescue IOError => e; p e; end", :USR1)
    assert_equal "ready\n#<IOError: trap>\n", outcome.stdout, outcome.stderr
  end

  def test_ctrl_c_while_a_parked_task_masks_it
    outcome = interrupt_beside(<<~RUBY)
      scope.spawn { Thread.handle_interrupt(Interrupt => :never) { idle } }
    RUBY
    assert_equal "ready\ninterrupted\n", outcome.stdout, outcome.stderr
  end

  slow "it starts Ruby several times"
  def test_ctrl_c_during_an_offloaded_call_and_a_child_process
    outcome = interrupt_beside(<<~RUBY)
      scope.spawn { NB.offload { idle } }
      pid = spawn("exec sleep 60", pgroup: true) # real: this child
      scope.spawn { begin; Process.wait(pid); ensure; Process.kill(:KILL, pid); end }
      scope.spawn { IO.popen(["sleep", "0.2"], &:read) }
    RUBY
    assert_equal "ready\ninterrupted\n", outcome.stdout, outcome.stderr
  end

  def test_a_child_that_forks_in_a_nested_run_ends_with_its_block
    outcome = program(<<~RUBY)
      parent = $$
      NeverBlock.run do |scope|
        gate = Queue.new
        scope.spawn { begin; gate.pop; ensure; puts "parent's" if $$ == parent; end }
        NeverBlock.run do |inner|
          inner.spawn { gate.pop }
          NB.pass
          pid = fork { puts "child" }
          Process.wait(pid)
          p $?.exitstatus
          2.times { gate << :go }
        end
      end
    RUBY
    assert_equal ["child\n0\nparent's\n", ""], [outcome.stdout, outcome.stderr]
  end
end
