# frozen_string_literal: true

# Runs blocks concurrently: in fibers on NeverBlock, in fibers on async, or in a number of threads.
#
#   executor = Measured::Executor.named("neverblock")
#   executor.run do
#     executor.start { query }          # in a fiber of its own, or in the next thread that is free
#     sleep 1
#   end                                 # when all have ended
module Measured
  module Executor
    # @param library [String]
    # @param threads [Integer] how many, where it is threads
    def self.named(library, threads: 1)
      case library
      when "neverblock" then OurFibers.new
      when "async" then TheirFibers.new
      when "threads" then Threads.new(threads)
      end
    end

    class OurFibers
      def initialize
        require "neverblock"
      end

      def run
        ::NeverBlock.run do |scope|
          @scope = scope
          yield
        end
      end

      def start(&) = @scope.spawn(&)

      # @return [Boolean] whether as many are at work as have been started
      def fibers? = true
    end

    class TheirFibers
      def initialize
        require "async"
      end

      def run
        Async { |task|
          @task = task
          yield
        }.wait
      end

      def start(&) = @task.async(&)

      def fibers? = true
    end

    # As in Puma: work without a free thread waits in a queue.
    class Threads
      # @return [Integer]
      attr_reader :number

      def initialize(number)
        @number = number
      end

      def run
        @queue = Thread::Queue.new
        threads = Array.new(@number) { Thread.new { work } }
        yield
      ensure
        @queue.close
        threads&.each(&:join)
      end

      def start(&block) = @queue << block

      def fibers? = false

      private

      def work
        while (block = @queue.pop)
          block.call
        end
      end
    end
  end
end
