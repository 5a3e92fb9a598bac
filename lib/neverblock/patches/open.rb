# frozen_string_literal: true

module NeverBlock
  module Patches
    # Opens regular and missing files in place. From Ruby 3.4 on opening a file asks the scheduler, which can't see the
    # path and uses a thread, because opening a FIFO may wait for its other end for ever. Opening a regular file takes
    # 4 us, a hand-over 25 to 50 us.
    #
    #   File.open("report.pdf") { |file| ... }     # no thread
    #   File.open("requests.fifo")                 # a thread
    module Open
      def self.targets = {::File => OfFile, ::IO.singleton_class => OfIO}

      def self.needed? = RUBY_VERSION >= "3.4"

      # File.new, File.open
      module OfFile
        def initialize(*arguments, **options) = Open.opening(arguments.first) { super }
      end

      # IO.sysopen
      module OfIO
        def sysopen(*arguments) = Open.opening(arguments.first) { super }
      end

      class << self
        # @yield opens the file
        def opening(path)
          return yield unless Patches.path?(path) && Scheduler.current
          Fiber.blocking { return yield unless waits?(::File.path(path)) } # File.file? would ask a Tempfile for its IO
          yield
        end

        private

        # @return [Boolean] whether the path is a FIFO, a device or the like
        def waits?(path) = !::File.file?(path) && !::File.directory?(path) && ::File.exist?(path)
      end
    end
  end
end
