# frozen_string_literal: true

module NeverBlock
  module Patches
    # IO#pwrite asks the scheduler, but on Ruby 3.3 and 3.4 it does so after it has released the interpreter's lock, so
    # that any hook corrupts the process or hangs it. In a task the scheduler is asked directly.
    #
    #   File.open("table", "r+b") { |file| file.pwrite(page, number * page.bytesize) }
    module Pwrite
      def self.targets = {::IO => self}

      def self.needed? = RUBY_VERSION < "4.0"

      def pwrite(object, offset)
        return super unless (scheduler = Scheduler.current)
        written = scheduler.pwrite(self, object, offset)
        raise SystemCallError.new(path, -written, "rb_io_pwrite") if written.negative?
        written
      end
    end
  end
end
