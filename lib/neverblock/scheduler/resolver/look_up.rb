# frozen_string_literal: true

module NeverBlock
  module Resolver
    # One question to getaddrinfo that is under way in a loop, and who waits for it.
    # It has a task of its own, so that no caller's fate is its own.
    # @api private
    class LookUp
      # @param scheduler [Scheduler] whose loop and native threads are used
      # @param question [Array] host, service and family
      # @param table [Hash{Array=>LookUp}] the look-ups of this loop that can be joined
      def initialize(scheduler, question, table)
        @scheduler = scheduler
        @question = question
        @table = table
        @audience = []
      end

      # @param answers [Thread::Queue] gets `[self, result]`
      # @return [self]
      def subscribe(answers)
        @audience << answers
        start unless @task
        self
      end

      # Harmless once the answer is there.
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
        # The last of the audience has left, or the loop is being closed.
      rescue => error
        announce(error)
      ensure
        @table.delete(@question)
        # Whoever cancelled this task did not mean those who came, or stayed, to listen.
        start if @audience.any?
      end

      def announce(result)
        @audience.each { |answers| answers << [self, result] }.clear
      end

      # Stream sockets only: otherwise each address comes once per socket type. Without
      # AI_ADDRCONFIG: it makes localhost unknown where only the loopback interface is up.
      def getaddrinfo
        host, service, family = @question
        @scheduler.getaddrinfo(host, service, family, Socket::SOCK_STREAM, 0, 0)
      end
    end
    private_constant :LookUp
  end
end
