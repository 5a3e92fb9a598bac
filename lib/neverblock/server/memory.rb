# frozen_string_literal: true

module NeverBlock
  class Server
    # The memory use of this process.
    #
    #   Memory.own   # => 61865984
    # @api private
    module Memory
      # Linux's proportional set size: a page that several processes share counts in part for each.
      PROPORTIONAL = "/proc/self/smaps_rollup"

      # @return [Integer, nil] bytes; nil if the system does not tell
      def self.own
        File.read(PROPORTIONAL)[/^Pss:\s*(\d+) kB/, 1]&.to_i&.*(1024)
      rescue SystemCallError
        nil
      end
    end
  end
end
