# frozen_string_literal: true

module NeverBlock
  module Patches
    # Makes IO.copy_stream between waiting descriptors cancellable. On Ruby 3.4 and later, core runs the whole copy on a
    # thread, which polls and can't be interrupted. In a task the patch copies by reads and writes instead, each an
    # ordinary wait. Copies between files stay with core.
    #
    #   IO.copy_stream(upload, "/srv/inbox/file")
    module CopyStream
      CHUNK = 65_536
      private_constant :CHUNK

      def self.targets = {::IO.singleton_class => self}

      def self.needed? = RUBY_VERSION >= "3.4"

      def copy_stream(source, destination, length = nil, offset = nil)
        return super unless Scheduler.current && CopyStream.waits?(source, destination)
        return super unless [length, offset].all? { |number| number.nil? || number.is_a?(::Integer) }
        length = nil if length&.negative? # in Ruby a negative length means no limit
        CopyStream.open(source, "rb") do |reader|
          CopyStream.open(destination, "wb") { |writer| CopyStream.copy(reader, writer, length, offset) }
        end
      end

      # @return [Boolean] whether both are descriptors or paths, and at least one isn't a regular file. Core reads and
      #   writes other objects by their methods
      def self.waits?(*ends)
        ends.all? { |one| ::IO === one || Patches.path?(one) } && ends.any? { |one| one.is_a?(::IO) && !one.stat.file? }
      end

      # @yieldparam io [IO]
      def self.open(one, mode, &block) = Patches.path?(one) ? ::File.open(one, mode, &block) : yield(one)

      # @return [Integer] bytes copied
      def self.copy(reader, writer, length, offset)
        copied = 0
        writer.flush
        buffer = String.new(capacity: CHUNK)
        until copied == length
          wanted = length ? [length - copied, CHUNK].min : CHUNK
          offset ? reader.pread(wanted, offset + copied, buffer) : reader.readpartial(wanted, buffer)
          write(writer, buffer)
          copied += buffer.bytesize
        end
        copied
      rescue EOFError
        copied
      end

      # Writes the bytes unconverted, as core does, whatever the encoding of the destination.
      def self.write(writer, buffer)
        written = 0
        while written < buffer.bytesize
          begin
            written += writer.syswrite(written.zero? ? buffer : buffer.byteslice(written..))
          rescue Errno::EAGAIN # raised by Ruby 4.1, which leaves the wait to the caller
            writer.wait_writable
          end
        end
      end
      private_class_method :write
    end
  end
end
