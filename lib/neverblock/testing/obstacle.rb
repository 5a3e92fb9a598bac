# frozen_string_literal: true

module NeverBlock
  module Testing
    # Names what keeps virtual time from moving, for the error of {VirtualClock#settle} and {VirtualClock#advance}.
    #
    #   Obstacle.new(scheduler, :jobs).to_s   # => "calls on other threads (offload, look-ups of names, files): 1"
    # @api private
    class Obstacle
      # @param scheduler [Scheduler]
      # @param kind [Symbol, Integer] :tasks, :jobs, :threads or the number of a descriptor
      def initialize(scheduler, kind)
        @scheduler = scheduler
        @kind = kind
      end

      # @return [String]
      def to_s
        case @kind
        when :tasks then "one of the tasks #{list(others.map(&:inspect))}"
        when :jobs then "calls on other threads (offload, look-ups of names, files): #{@scheduler.statistics[:jobs]}"
        when :threads then "other threads: #{list(@scheduler.other_threads.running.map { |thread| place(thread) })}"
        else "bytes on their way, or an operation of the kernel, at descriptor #{@kind} (#{link})"
        end
      end

      private

      def list(texts) = texts.empty? ? "unknown" : texts.join(", ")

      def others = @scheduler.tasks - [Task.current]

      def place(thread) = "#{thread.inspect} at #{thread.backtrace&.first || "its end"}"

      def link
        File.readlink("/dev/fd/#{@kind}")
      rescue SystemCallError
        "closed"
      end
    end
  end
end
