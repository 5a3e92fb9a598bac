# frozen_string_literal: true

module NeverBlockFuzz
  # What the strands of a program are: threads, or tasks of one loop or several.
  #
  #   Hosts::Fibers.new.run { … strand { … } … }
  module Hosts
    # Plain threads: what Ruby itself does.
    class Threads
      # @yield makes the strands
      # @return [void] when a strand may have been left
      def run
        yield
      end

      # @return [Thread]
      def strand(&) = Thread.new(&)

      # @return [void]
      def raise_in(thread, error) = thread.raise(error)

      # @return [void]
      def kill(thread) = thread.kill
    end

    # Tasks of one loop, on the main thread.
    class Fibers
      def run
        NeverBlock.run do |scope|
          @scope = scope
          yield
        end
      end

      # @return [NeverBlock::Task]
      def strand(&) = @scope.spawn(&)

      # From a strand of the same loop.
      def raise_in(task, error) = task.alive? && task.fiber.raise(error)

      # From a strand of the same loop.
      def kill(task) = task.alive? && task.fiber.kill
    end

    # Tasks of several loops, each on a thread. The main thread has none.
    class Loops < Fibers
      # @param count [Integer]
      def initialize(count = 2)
        @count = count
        @order = [-1, 0, -2].cycle
      end

      def run
        scopes = Thread::Queue.new
        held, @holder = IO.pipe # each loop waits for a descriptor
        @count.times { Thread.new { NeverBlock.run { |scope| scopes.push(scope) && held.wait_readable } } }
        @scopes = Array.new(@count) { scopes.pop }
        yield
      end

      # Belongs to the last loop, to the first, or to the last but one.
      def strand(&)
        @scopes[@order.next].spawn(&)
      end
    end

    # More loops than most programs have.
    class Crowd < Loops
      def initialize = super(70)
    end
  end
end
