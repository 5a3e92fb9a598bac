# frozen_string_literal: true

module NeverBlock
  class Scope
    # The order of one task's scopes. The scopes of its own fiber form a stack. A nested run inside an Enumerator may be
    # suspended; it continues later or never. Its scope doesn't enclose the task's other code.
    #
    #   e = Enumerator.new { |y| NeverBlock.run { y << 1 } }
    #   e.next                      # that scope is suspended now
    #   NeverBlock.spawn { work }   # joins the task's own scope
    #
    # Tasks in Enumerators that their owner hasn't read to the end are cancelled, and the owner's scope waits for them.
    # @api private
    module Nesting
      # Nested scopes of one task at which the first pruning takes place; afterwards each time
      # that their number has doubled.
      FIRST_PRUNING = 32

      # @return [Scope, nil] the enclosing scope in the same task
      attr_accessor :outer

      # @return [Integer] depth: the number of enclosing scopes; limit: the depth at which dropped scopes are pruned
      attr_reader :depth, :limit

      # @return [Boolean] whether the scope belongs to an Enumerator that has yielded, or was dropped then
      def suspended?
        return false unless @fibers
        fiber = @fibers[self]
        !fiber.equal?(Fiber.current) && !(fiber && Scheduler.resuming?(fiber))
      end

      # @return [Boolean] whether the scope's Enumerator has been collected
      def dropped? = !@fibers.nil? && @fibers[self].nil?

      # Takes over the tasks and failures of another scope. The tasks are cancelled.
      # @param scope [Scope]
      # @return [void]
      def adopt(scope)
        tasks, errors = scope.hand_over(self)
        @tasks.merge!(tasks)
        errors.each { |error| failed_by(error) }
        tasks.keys.each { |task| task.cancel("the Enumerator in which its scope began was not read to the end") }
      end

      # Ends the scope of an Enumerator that doesn't continue. The heir waits for its tasks, which are cancelled.
      # @param heir [Scope]
      # @return [Array(Hash, Array<Exception>)] the scope's tasks and failures
      def hand_over(heir)
        @closed = true
        @heir = heir
        left = [@tasks, @errors]
        @tasks = {}
        @errors = [
          ClosedError.new("the scope's tasks were cancelled, because the task in which the scope began has ended. " \
            "Read an Enumerator to its end in the task that began it")
        ]
        done # another task may be reading the Enumerator
        left
      end

      private

      # Holds the Enumerator's fiber weakly, so that a dropped Enumerator can be collected.
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

      # Removes the scopes of collected Enumerators.
      def prune(owner)
        chain = [self]
        chain << chain.last.outer until chain.last.equal?(owner.scope)
        gone, left = chain.partition { |scope| scope.dropped? && !scope.equal?(owner.scope) }
        left.each_cons(2) { |inner, outer| inner.outer = outer }
        gone.each { |scope| owner.scope.adopt(scope) }
        @depth = left.size
        @limit = @depth * 2 + FIRST_PRUNING
      end

      # Removes this scope from the task's chain. The scopes of Enumerators end in any order.
      def leave(owner)
        return owner.inner_scope = @outer if equal?(owner.inner_scope)
        inner = owner.inner_scope
        inner = inner.outer until inner.nil? || equal?(inner.outer)
        inner&.outer = @outer
      end

      # Adopts the tasks in Enumerators that the task hasn't read to the end.
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
