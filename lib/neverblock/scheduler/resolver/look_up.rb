# frozen_string_literal: true

module NeverBlock
  module Resolver
    # One question to getaddrinfo in a loop, with its subscribers. It has its own task, so that the end of a subscriber
    # doesn't end the look-up of the others.
    # @api private
    class LookUp
      # @param scheduler [Scheduler] provides the loop and the native threads
      # @param question [Array] host, service and family
      # @param table [Hash{Array=>LookUp}] the loop's look-ups that further subscribers can join
      def initialize(scheduler, question, table)
        @scheduler = scheduler
        @question = question
        @table = table
        @audience = {}.compare_by_identity
      end

      # @param answers [Thread::Queue] gets `[self, result]`
      # @return [self]
      def subscribe(answers)
        @audience[answers] = true
        start unless @task
        self
      end

      # Has no effect after the answer.
      # @param answers [Thread::Queue]
      def unsubscribe(answers)
        @audience.delete(answers)
        @task&.cancel if @audience.empty?
      end

      private

      def start
        @table[@question] = self
        @task = @scheduler.background { answer }
        @task.name = "looks up #{@question.first}"
      end

      def answer
        announce(Resolver.flight.call(@question) { getaddrinfo })
      rescue Cancelled
        # The last subscriber has left, or the loop is being closed.
      rescue => error
        announce(error)
      ensure
        @table.delete(@question)
        # A cancellation of this task doesn't concern subscribers that are still there.
        start if @audience.any?
      end

      def announce(result)
        @audience.each_key { |answers| answers << [self, result] }.clear
      end

      # Asks for stream sockets only, because each address appears once per socket type otherwise. AI_ADDRCONFIG is left
      # out, because it hides localhost where only the loopback interface is up.
      def getaddrinfo
        host, service, family = @question
        @scheduler.getaddrinfo(host, service, family, Socket::SOCK_STREAM, 0, 0)
      end
    end
    private_constant :LookUp
  end
end
