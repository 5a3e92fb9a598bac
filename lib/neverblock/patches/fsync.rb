# frozen_string_literal: true

module NeverBlock
  module Patches
    # IO#fsync and IO#fdatasync wait for the disk with the whole thread; Ruby has no
    # hook for them. In a task a native thread waits.
    #
    #   File.open("journal", "a") { |file| file.write(entry) && file.fsync }
    module Fsync
      def self.targets = {::IO => self}

      def self.needed? = true

      def fsync
        (scheduler = Scheduler.current) ? Fsync.wait(self) { scheduler.fsync(self) } : super
      end

      def fdatasync
        (scheduler = Scheduler.current) ? Fsync.wait(self) { scheduler.fdatasync(self) } : super
      end

      # @return [Integer] 0, as Ruby's own
      # @raise [SystemCallError] worded as Ruby's own
      def self.wait(io)
        io.flush
        begin
          yield
        rescue SystemCallError => error
          raise SystemCallError.new(io.path, error.errno, "rb_io_fsync")
        end
        0
      end
    end
  end
end
