# frozen_string_literal: true

module NeverBlock
  class Scope
    # How the scopes of one task stand around one another. Those of its own fiber are a stack. A nested run inside an
    # Enumerator may be suspended in the middle, go on later, or never: its scope is none that the task's other code is in.
    #
    #   e = Enumerator.new { |y| NeverBlock.run { y << 1 } }
    #   e.next                      # that scope is suspended now
    #   NeverBlock.spawn { work }   # joins the task's own
    #
    # What a task leaves behind in Enumerators that it has not read to their ends is cancelled, and its scope waits for it.
    # @api private
    module Nesting
      # How many scopes of one task, around one another; then whenever their number has doubled.
      FIRST_PRUNING = 32

      # @return [Scope, nil] the one around it in the same task
      attr_accessor :outer

      # @return [Integer] how many there were around it, and when to look which of them are dropped
      attr_reader :depth, :limit

      # @return [Boolean] whether it is that of an Enumerator which has yielded, or was dropped then
      def suspended?
        return false unless @fibers
        fiber = @fibers[self]
        !fiber.equal?(Fiber.current) && !(fiber && Scheduler.resuming?(fiber))
      end

      # @return [Boolean] whether its Enumerator has been collected
      def dropped? = !@fibers.nil? && @fibers[self].nil?

      # @param scope [Scope] whose tasks are ours from now on
      # @return [void]
      def adopt(scope)
        tasks, errors = scope.hand_over(self)
        @tasks.merge!(tasks)
        errors.each { |error| failed_by(error) }
        tasks.keys.each { |task| task.cancel("the Enumerator that began its scope will not end it") }
      end

      # Ends the scope of an Enumerator that will not come back to do it: another one waits for its tasks, which are cancelled.
      # @param heir [Scope]
      # @return [Array(Hash, Array<Exception>)] its tasks and their failures
      def hand_over(heir)
        @closed = true
        @heir = heir
        left = [@tasks, @errors]
        @tasks = {}
        @errors = [ClosedError.new("the task in which this scope began has ended, and the scope's tasks were cancelled: end an Enumerator in the task that began it")]
        done # another task may be reading it
        left
      end

      private

      # An Enumerator's fiber is held weakly: one that is dropped is collected.
      def enter(owner)
        @owner = owner
        @outer = owner.inner_scope
        owner.inner_scope = self
        @depth = @outer.depth + 1
        @limit = @outer.limit
        return if Fiber.current.equal?(owner.fiber)
        @fibers = ObjectSpace::WeakMap.new.tap { |fibers| fibers[self] = Fiber.current }
        prune(owner) if @depth > @limit
      end

      # The scopes whose Enumerators have been collected.
      def prune(owner)
        chain = [self]
        chain << chain.last.outer until chain.last.equal?(owner.scope)
        gone, left = chain.partition { |scope| scope.dropped? && !scope.equal?(owner.scope) }
        left.each_cons(2) { |inner, outer| inner.outer = outer }
        gone.each { |scope| owner.scope.adopt(scope) }
        @depth = left.size
        @limit = @depth * 2 + FIRST_PRUNING
      end

      # The scopes of Enumerators end in any order.
      def leave(owner)
        return owner.inner_scope = @outer if equal?(owner.inner_scope)
        inner = owner.inner_scope
        inner = inner.outer until inner.nil? || equal?(inner.outer)
        inner&.outer = @outer
      end

      # What a task leaves behind in Enumerators that it has not read to their ends.
      def adopt_from(task)
        scope = task.inner_scope
        until scope.equal?(task.scope)
          adopt(scope)
          scope = scope.outer
        end
      end
    end
  end
end
