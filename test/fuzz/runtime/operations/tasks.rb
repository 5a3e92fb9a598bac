# frozen_string_literal: true

module NeverBlockFuzz
  module Operations
    # Loops, tasks, scopes, and the regions around them.
    module Tasks
      private

      def root_thread(root)
        Thread.new do
          Thread.current.report_on_exception = false
          execute_root(root)
        end
      end

      # A killed thread has no value; any other thread returns one.
      def finish(thread)
        thread.join
      rescue Interruption
        nil # arrived after the end of its loop
      end

      # An interrupt after the end of the loop must not reach the fuzzer's own code.
      def execute_root(root)
        main = Strand.new(root.id, Strand::Group.new(nil, nil, nil))
        @ledger.loop_threads << Thread.current
        Thread.handle_interrupt(Interruption => :never) do
          aim(root, main)
          Thread.handle_interrupt(Interruption => :immediate) { run_root(root, main) }
        rescue Injected, Interruption => error
          check_raised(error, main)
        ensure
          @aim.synchronize { @ledger.loop_threads.delete(Thread.current) }
        end
      rescue Injected, Interruption => error
        check_raised(error, main)
      end

      def run_root(root, main)
        outer = root.args[:outer] or return run_main(root, main)
        main.outer = true
        main.limits << Strand::Limit.new(now + outer)
        Timeout.timeout(outer) { run_main(root, main) }
      rescue Timeout::Error => error
        unexplained(error, main) unless root.args[:outer]
      rescue NeverBlock::Cancelled => error
        unexplained(error, main) unless main.explanation
      rescue Injected, Interruption, SystemExit, SignalException
        raise
      rescue Exception => error # standard:disable Lint/RescueException -- reported
        unexplained(error, main)
      end

      def run_main(root, main)
        inside(main, root.args[:exit]) { perform(root.body, main) }
      end

      # A nested run.
      def op_run(node, at)
        inside(at, node.args[:exit]) { perform(node.body, at) }
      rescue Injected => error
        check_raised(error, at)
      end

      # Opens a scope; after it has ended, none of its tasks is alive.
      # @yieldparam group [Strand::Group]
      def inside(at, exit = nil)
        group = Strand::Group.new(at, nil, nil)
        at.opened << group
        region("run", at) do
          NeverBlock.run(exit: exit || :wait) do |scope|
            group.scope = scope
            unwinding(group) { yield group }.tap { group.reason ||= exit }
          end
        end
      ensure
        at.opened.delete_if { |one| one.equal?(group) }
        alive = @ledger.strands.select { |strand| strand.group.equal?(group) && strand.task&.alive? }
        ledger.check(:task_alive, alive.empty?) { "a run has ended before #{alive.first.inspect}: #{alive.first.task.inspect}" }
      end

      # Records that the tasks of a group are cancelled because the owner's block is left.
      def unwinding(group)
        completed = false
        yield.tap { completed = true }
      ensure
        group.reason ||= :unwound unless completed
      end

      def op_spawn(node, at)
        start(node.id, at, keep: node.args[:keep]) { |strand| perform(node.body, strand) }
      end

      # Starts a task of the program.
      # @param keep [Boolean] whether it keeps an error raised in it from outside
      # @param spawner [#call] takes a block and returns its task
      # @return [Strand]
      def start(id, at, keep: true, group: at.opened.last || at.group, spawner: NeverBlock.method(:spawn))
        strand = Strand.new(id, group)
        @ledger.strands << strand
        strand.task = spawner.call { strand_body(strand, keep) { yield strand } }
        strand
      end

      def strand_body(at, keep = true)
        at.thread = Thread.current
        at.task ||= NeverBlock::Task.current
        region("task", at) do
          yield
          at.token
        end
      rescue Injected => error
        check_raised(error, at)
        return at.token if keep
        at.group.reason ||= :failed
        raise
      rescue NeverBlock::Cancelled => error
        unexplained(error, at) unless at.explanation
        check_reason(error, at)
        raise
      rescue Interruption, SystemExit, SignalException
        raise
      rescue Exception => error # standard:disable Lint/RescueException -- reported
        raise if outer_timeout?(error, at)
        return at.token if lost_lock?(error, at)
        unexplained(error, at)
        at.token
      end

      # Fiber#raise and Fiber#kill may end a wait for a mutex that is about to be unlocked, which Ruby allows.
      def lost_lock?(error, at) = at.struck && ThreadError === error && error.message.include?("unlock a mutex")

      # A timeout of plain Ruby around the loop interrupts its thread, and so any running task.
      def outer_timeout?(error, at)
        (Timeout::Error === error || error.instance_of?(Timeout::ExitException)) && at.outer_timeout?
      end

      def op_timeout(node, at)
        region("timeout", at) do
          limited(at, node.args[:limit], node.args[:kind]) { perform(node.body, at) }
        end
      end

      def op_shield(node, at)
        region("shield", at) { NeverBlock.shield { undisturbed("shield", node, at) } }
      end

      def op_mask(node, at)
        region("mask", at) { Thread.handle_interrupt(Exception => :never) { undisturbed("mask", node, at) } }
      end

      def undisturbed(name, node, at)
        perform(node.body, at)
      rescue Exception => error # standard:disable Lint/RescueException -- raised again
        unless Injected === error || Interruption === error || at.forced || at.killed || lost_lock?(error, at) || ledger.interrupts > 0
          ledger.fail(:shield_pierced, "#{error.class} (#{error.message}) was raised inside a #{name}, in #{at.inspect}")
        end
        raise
      end

      def op_ensure(node, at)
        region("ensure", at) { perform(node.body, at) }
      ensure
        node.args[:descriptor] ? await_byte : nap(node.args[:seconds], at)
      end

      def await_byte = IO.pipe { |reader, writer| (writer << "b") && reader.wait_readable }

      # A timeout without a class is raised again at the next wait; all others are passed on.
      def op_catch_all(node, at)
        begin
          perform(node.body, at)
        rescue Exception => error # standard:disable Lint/RescueException -- what can't come again is raised
          raise unless unwinds?(error)
        end
        return unless error
        sleep 1
        ledger.fail(:wait_ended, "a timeout that was rescued has not come again, in #{at.inspect}")
      end

      # @return [Boolean] whether the exception unwinds a block for a timeout without a class
      def unwinds?(error) = NeverBlock::Scheduler::ScopeExit === error

      def unexplained(error, at)
        place = error.backtrace&.find { |line| !line.include?("/lib/neverblock/") && !line.include?("<internal:") }
        ledger.fail(:unexplained_error, "#{error.class}: #{error.message} in #{at.inspect} at #{place}")
      end

      def check_raised(error, at)
        ledger.check(:unexplained_error, @ledger.raised.key?(error)) { "#{error.inspect} in #{at.inspect} was not raised by the program" }
      end
    end
  end
end
