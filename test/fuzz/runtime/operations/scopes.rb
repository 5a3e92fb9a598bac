# frozen_string_literal: true

module NeverBlockFuzz
  module Operations
    # The ends of scopes, tasks and blocks: transient tasks, cancellation with a reason, move_on_after.
    module Scopes
      WITHOUT = "only transient tasks are left in its scope"
      private_constant :WITHOUT

      private

      # A scope with transient tasks, which end by themselves or never do.
      def op_transient(node, at)
        over = false
        inside(at) do
          node.args[:tasks].each do |kind|
            strand = start(node.id, at, spawner: ->(&block) { NeverBlock.spawn(transient: true, &block) }) do |one|
              be_transient(kind, node, one) { over }
            end
            strand.transient = true
          end
          perform(node.body, at)
          over = true
        end
      end

      # @yieldreturn [Boolean] whether the scope's block has ended
      def be_transient(kind, node, at)
        case kind
        when :forever then sleep
        when :loop then loop { nap(node.args[:seconds], at) }
        when :items then loop { take(node.args[:queue], at, &:pop) }
        when :parent then start(nil, at) { |strand| nap(node.args[:seconds], strand) }.then { sleep }
        else nap(node.args[:seconds], at)
        end
      rescue NeverBlock::Cancelled => error
        check_transient(at, yield) if error.reason == WITHOUT
        raise
      ensure
        nap(node.args[:seconds], at) # its scope waits for that
      end

      def check_transient(at, over)
        alive = @ledger.strands.select { |strand| strand.group.equal?(at.group) && !strand.transient && strand.task&.alive? }
        ledger.check(:transient_end, over && alive.empty?) do
          "a transient task was ended before #{over ? alive.first.inspect : "its scope's block"}: #{at.inspect}"
        end
      end

      # A task, and the tasks of its inner scopes, get the reason of their cancellation.
      def op_cancel_reason(node, at)
        kind, depth, passes = node.args.values_at(:kind, :depth, :passes)
        reason = known_reason
        seen = []
        inside(at) do
          strand = start(nil, at) { |one| descend(kind, depth, seen, one) }
          passes.times { NeverBlock.pass }
          strand.reason = :cancelled
          strand.task.cancel(reason)
          strand.task.join # raises exceptions meant for this task
          seen << reason_of(strand.task)
        end
        others = seen.reject { |one| one.equal?(reason) } # the thread's end may arrive in that task, and has no reason
        ledger.check(:cancel_reason, others.empty? || (ledger.interrupts > 0 && others.none?)) { "cancelled with #{reason.inspect}, seen #{seen.inspect}: #{node.title}" }
      end

      def reason_of(task)
        task.value
        :none
      rescue NeverBlock::Cancelled => error
        error.reason
      end

      def descend(kind, depth, seen, at)
        return send(:"forever_#{kind}", at) if depth.zero?
        inside(at) do
          start(nil, at) { |strand| descend(kind, depth - 1, seen, strand) }
          sleep if depth.even?
        end
      rescue NeverBlock::Cancelled => error
        seen << error.reason
        raise
      end

      # @return [String] a reason that tasks may be cancelled with
      def known_reason = "reason #{@ledger.number}".tap { |reason| @ledger.reasons[reason] = true }

      # A reason is a given one, the failure that cancels others, or that a scope ends without the task.
      def check_reason(error, at)
        reason = error.reason
        known = reason.nil? || reason == WITHOUT || Exception === reason || @ledger.reasons.key?(reason)
        ledger.check(:cancel_reason, known) { "#{at.inspect} was cancelled because of #{reason.inspect}, which was never given" }
      end

      # The block returned its value, or its time was up: never both.
      def op_move_on(node, at)
        seconds = node.args[:limit]
        given = nil
        started = now
        at.limits << (limit = Strand::Limit.new(started + seconds))
        region("move_on_after", at) do
          value = NeverBlock.move_on_after(seconds) do |yielded|
            given = yielded
            perform(node.body, at)
            at.token
          end
          check_move_on(value, given, now - started, node, at)
        end
      ensure
        at.limits.delete_if { |one| one.equal?(limit) }
      end

      # A block that has swallowed the unwinding may reach its last line after its time: its value is dropped then.
      def check_move_on(value, given, elapsed, node, at)
        right = given.expired? ? value.nil? : value == at.token
        ledger.check(:move_on_value, right) { "move_on_after returned #{value.inspect}, expired: #{given.expired?}: #{node.title}" }
        ledger.check(:timeout_early, !given.expired? || elapsed >= node.args[:limit]) { "move_on_after(#{node.args[:limit]}) moved on after #{elapsed} s" }
        ledger.check(:move_on_value, given.left.between?(0, node.args[:limit])) { "#{given.left} s are left: #{node.title}" }
      end
    end
  end
end
