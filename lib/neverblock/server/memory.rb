# frozen_string_literal: true

module NeverBlock
  class Server
    # How much memory a process takes.
    #
    #   Memory.own   # => 61865984
    # @api private
    module Memory
      # The proportional set size: a page that several share counts for each in part. Linux tells it.
      PROPORTIONAL = "/proc/self/smaps_rollup"

      # @return [Integer, nil] bytes; nil where the system does not tell
      def self.own
        File.read(PROPORTIONAL)[/^Pss:\s*(\d+) kB/, 1]&.to_i&.*(1024)
      rescue SystemCallError
        nil
      end
    end
  end
end
