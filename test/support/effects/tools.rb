# frozen_string_literal: true

require "fileutils"
require_relative "../limit"

module NeverBlockTest
  module Effects
    # Helpers for the rows. Their resources are released at the end of a cell.
    module Tools
      # @return [String] a new folder
      def folder
        @folder ||= Dir.mktmpdir("neverblock-effects").tap { |path| finally { FileUtils.rm_rf(path) } }
      end

      # @return [Array<IO>] reader and writer
      def pipe = IO.pipe.tap { |ends| close_finally(*ends) }

      # @return [Array<UNIXSocket>]
      def pair = UNIXSocket.pair.tap { |ends| close_finally(*ends) }

      def close_finally(*streams)
        finally { streams.each { |stream| stream.close unless stream.closed? } }
        streams.first
      end

      # A thread that plays the other side, and can be stopped.
      def other(&block)
        thread = Thread.new(&block)
        thread.report_on_exception = false
        finally { thread.kill.join }
        thread
      end

      # A gate for waiters, opened at the end of the cell.
      # @return [Thread::Queue]
      def gate = Thread::Queue.new.tap { |queue| finally { queue.close } }

      # A process that ends with status 7 after `release`, and notes its number.
      # @param redirect [Hash] for spawn; nil: only the text of a command is needed
      # @return [String] a command for the shell
      def child_command
        File.mkfifo("#{folder}/release")
        slow_start
        finally { end_child }
        "echo $$ >#{folder}/pid.new; mv #{folder}/pid.new #{folder}/pid; read line <#{folder}/release; exit 7"
      end

      # @return [Integer, nil] its process ID, once it runs
      def child = (@child ||= Integer(File.read("#{folder}/pid"), exception: false) if File.exist?("#{folder}/pid"))

      def release_child = File.open("#{folder}/release", "r+") { |fifo| (fifo << "\n").flush && await_child_reading(fifo) }

      # Asserts equal bytes, without printing them: there are too many.
      def assert_bytes(expected, actual)
        assert expected == actual, "#{actual.bytesize} bytes, not the #{expected.bytesize} that were expected, or others"
      end

      # Waits for a condition, inside or outside of a loop.
      # @return [Object] the block's value
      def wait_until(what, &) = NeverBlockTest.wait_until(what, &)
      alias_method :pass_until, :wait_until

      # An abandoned operation would consume or send its data before the check goes on. Nothing waits for this.
      def others_first
        NeverBlock.pass
        Fiber.blocking { sleep 0.002 } # real: an abandoned operation of a thread or the kernel
      end

      # The bytes that are available now.
      # @return [String]
      def drained(stream)
        bytes = +""
        bytes << stream.read_nonblock(1 << 20) while stream.wait_readable(0)
        bytes
      rescue IO::WaitReadable, EOFError
        bytes
      end

      # @return [Exception, nil]
      def raised
        yield
        nil
      rescue StandardError => error # standard:disable Style/RescueStandardError
        error
      end

      private

      # The FIFO holds the line until the child has it.
      def await_child_reading(fifo) = wait_until("the child to go on") { !fifo.wait_readable(0) }

      def end_child
        wait_until("the child") { child } if begun?
        return unless child
        Process.kill(:KILL, child)
        Process.wait(child)
      rescue Errno::ESRCH, Errno::ECHILD
        nil # wait_until waits for its end
      end

      # Descriptors of loops are left out: the end of a loop keeps them for the next one.
      def descriptors
        return {} unless File.directory?("/proc/self/fd")
        names = Dir.children("/proc/self/fd").filter_map { |fd| File.readlink("/proc/self/fd/#{fd}") rescue nil } # standard:disable Style/RescueModifier
        names.grep_v(/eventpoll|eventfd|io_uring|\/proc/).tally
      end

      def new_descriptors(before)
        return [] if before.empty?
        deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + LIMIT
        loop do
          left = descriptors.reject { |name, count| count <= before.fetch(name, 0) }.keys
          return left if left.empty? || Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
          sleep 0.002 # real: other threads close them
        end
      end
    end
  end
end
