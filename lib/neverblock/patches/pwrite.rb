# frozen_string_literal: true

module NeverBlock
  module Patches
    # Makes IO#pwrite ask the scheduler directly. Ruby 3.3 and 3.4 call the hook after they have released the
    # interpreter's lock, so any hook corrupts the process or hangs it.
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
