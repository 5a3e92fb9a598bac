# frozen_string_literal: true

require "time"
require_relative "../clock"
require_relative "log_text"

module NeverBlock
  class Server
    # The result of the last load of the app, and the callers that wait for one. Thread-safe.
    #
    #   answer = loads.ask               # before the load begins
    #   loads.begin
    #   loads.over(:failed, "config.ru can't be loaded")
    #   answer.pop                       # => [:failed, "config.ru can't be loaded"]
    #   loads.to_h[:message]             # => "config.ru can't be loaded"
    # @api private
    class Loads
      def initialize
        @lock = Thread::Mutex.new
        @asked = []
        @running = []
        @last = {result: :loading} # the first one
      end

      # @return [Thread::Queue] gets the result of the first load that begins from now on: :loaded or :failed, and a
      #   sentence. It is closed if the next program will have the result
      def ask
        Thread::Queue.new.tap { |answer| @lock.synchronize { give(answer, @end) { @asked << answer } } }
      end

      # @param later [Boolean] whether another load is waiting
      # @return [Thread::Queue] as {#ask}: of the waiting load, else of the running one, else of the last one
      def join(later)
        return ask if later
        Thread::Queue.new.tap do |answer|
          @lock.synchronize { give(answer, (@last.values_at(:result, :message) unless going?)) { @running << answer } }
        end
      end

      # @return [void]
      def begin
        @lock.synchronize do
          @running.concat(@asked)
          @asked.clear
          @last = {result: :loading, at: Clock.time.utc.iso8601}
        end
      end

      # @param result [:loaded, :failed]
      # @param message [String]
      # @return [void]
      def over(result, message)
        @lock.synchronize do
          @passed_on = false
          @last = {result:, message: LogText.utf8(message), at: Clock.time.utc.iso8601}
          @running.each { |answer| answer << [result, message] }.clear
        end
      end

      # Another program replaces this one.
      # @return [void]
      def pass_on
        @lock.synchronize do
          @passed_on = true
          all.each(&:close)
        end
      end

      # There will be no other load.
      # @param message [String]
      # @return [void]
      def close(message)
        @lock.synchronize do
          @end = [:failed, message]
          all.each { |answer| answer << @end }
        end
      end

      # @return [Hash{Symbol=>Object}] as docs/operations.md has it
      def to_h = @last

      private

      def give(answer, result)
        if @passed_on then answer.close
        else result ? answer << result : yield
        end
      end

      def going? = @last[:result] == :loading

      def all = [*@asked, *@running].tap { [@asked, @running].each(&:clear) }
    end
  end
end
