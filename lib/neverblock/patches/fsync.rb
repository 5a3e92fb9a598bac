# frozen_string_literal: true

module NeverBlock
  module Patches
    # Makes IO#fsync and IO#fdatasync park the fiber while a native thread waits for the
    # disk. Ruby has no hook for them.
    #
    #   File.open("journal", "a") { |file| file.write(entry) && file.fsync }
    module Fsync
      PATH = ::IO.instance_method(:path) # UNIXSocket has another one
      private_constant :PATH

      def self.targets = {::IO => self}

      def self.needed? = true

      def fsync
        (scheduler = Scheduler.current) ? Fsync.wait(self) { scheduler.fsync(self) } : super
      end

      def fdatasync
        (scheduler = Scheduler.current) ? Fsync.wait(self) { scheduler.fdatasync(self) } : super
      end

      # @return [Integer] 0, as the original method
      # @raise [SystemCallError] with the message of the original method
      def self.wait(io)
        io.flush
        begin
          yield
        rescue SystemCallError => error
          raise SystemCallError.new(PATH.bind_call(io), error.errno, "rb_io_fsync")
        end
        0
      end
    end
  end
end
