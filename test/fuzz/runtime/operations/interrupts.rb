# frozen_string_literal: true

module NeverBlockFuzz
  module Operations
    # Operations of a task, or a thread, on another task: cancel, raise, kill, wait.
    module Interrupts
      private

      # Raises in the loop's thread, or kills it, after a pause, unless the loop has ended.
      def aim(root, main)
        kind, seconds = root.args.values_at(:interrupt, :after)
        return unless kind
        loop_thread = Thread.current
        error = Interruption.new("raised in the loop's thread")
        @ledger.raised[error] = true
        helper(nil) do
          sleep seconds
          @aim.synchronize { strike_thread(loop_thread, kind, error, main) if @ledger.loop_threads.include?(loop_thread) }
          nil
        end
      end

      def strike_thread(thread, kind, error, main)
        main.reason = kind
        return thread.raise(error) unless kind == :kill
        @ledger.interrupted
        thread.kill
      end

      # @return [Strand, nil] a living one, preferably of this thread
      def victim(node, at, &condition)
        all = @ledger.strands.select { |strand| strand.id && strand.task&.alive? && (!condition || condition.call(strand)) }
        all[node.args[:target] % all.size] unless all.empty?
      end

      def op_cancel(node, at)
        strand = victim(node, at) or return
        force = node.args[:force] || false
        strand.reason ||= :cancelled
        strand.forced ||= force
        strand.task.cancel((known_reason if node.args[:reason]), force:)
      end

      def op_cancel_scope(node, at)
        group = at.opened.last || at.group
        return unless group.scope
        group.reason ||= :cancelled
        group.scope.cancel((known_reason if node.args[:reason]))
      end

      def op_raise_in(node, at)
        error = Injected.new("raised in a fiber")
        @ledger.raised[error] = true
        strike(node, at) { |fiber| fiber.raise(error) }
      end

      def op_kill(node, at)
        strike(node, at) do |fiber, strand|
          strand.killed = true
          fiber.kill
        end
      end

      # Only at parked fibers, as Ruby itself allows.
      def strike(node, at)
        strand = victim(node, at) { |one| !one.equal?(at) && one.thread == Thread.current && one.task.waits_for && one.task.fiber }
        return unless strand
        before = [strand.reason, strand.struck, strand.killed]
        strand.reason ||= :struck
        strand.struck = true
        yield strand.task.fiber, strand
      rescue FiberError # for example after a transfer to an Enumerator, or the end of another loop
        strand.reason, strand.struck, strand.killed = before
      end

      # Waits for a younger task, so that there can't be a cycle.
      def op_await(node, at)
        strand = victim(node, at) { |one| one.serial > at.serial && !one.transient } or return
        ended = false
        expired, value = limited(at, node.args[:limit]) do
          strand.task.join
          ended = true # from here on `value` raises the other task's cancellation, not this one's
          (node.args[:how] == :value) ? strand.task.value : strand.task
        end
        return if expired || strand.killed
        expected = (node.args[:how] == :value) ? strand.token : strand.task
        ledger.check(:task_value, value == expected) { "#{node.args[:how]} of #{strand.inspect} is #{value.inspect}" }
      rescue Injected => error
        check_raised(error, at)
      rescue NeverBlock::Cancelled
        raise unless ended && strand.task.cancelled?
      rescue Timeout::Error, Timeout::ExitException => error # a timeout around another loop has ended its task
        raise unless outer_timeout?(error, strand) && !at.outer_timeout?
      end
    end
  end
end
