# frozen_string_literal: true

module NeverBlock
  module Patches
    # From Ruby 3.4 on opening a file asks the scheduler, who can not see what is opened, and so hands it to a thread: the open
    # of a FIFO waits for the other end, maybe for ever. A regular file's takes 4 us, a hand-over 25 to 50. What is a regular
    # file, or not there yet, is opened in place.
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
        # @yield opens it
        def opening(path)
          return yield unless path?(path) && Scheduler.current
          Fiber.blocking { return yield unless waits?(::File.path(path)) } # File.file? would ask a Tempfile for its IO
          yield
        end

        private

        # @return [Boolean] what is no path is a descriptor, or for Ruby to refuse
        def path?(one) = String === one || (one.respond_to?(:to_path) && !(::IO === one))

        # @return [Boolean] whether it is a FIFO, a device, or the like
        def waits?(path) = !::File.file?(path) && !::File.directory?(path) && ::File.exist?(path)
      end
    end
  end
end
