# frozen_string_literal: true

module NeverBlock
  # Prints a {dump} whenever the process gets a signal. A thread of its own prints, so that a loop that is
  # stuck in Ruby code appears too.
  #
  #   NeverBlock.dump_on(:USR2)      # kill -USR2 4711
  #
  # `neverblock serve` uses USR1, USR2 and other signals itself. Choose PROF there.
  #
  # @param signal [Symbol, String, Integer] as in Signal.trap
  # @param io [#write]
  # @return [Object] without a block, the signal's earlier handler, as Signal.trap returns it. With a block, the block's
  #   value; the earlier handler is restored
  # @raise [ArgumentError, SystemCallError] for a signal that can't be trapped, and for EXIT;
  #   unless the io responds to write
  def self.dump_on(signal, io: $stderr)
    Options.writer("io", io)
    if %w[0 EXIT SIGEXIT].include?(signal.to_s)
      raise ArgumentError, "dump_on: #{signal.inspect} can't be used, because no thread prints at the exit. " \
        "Use at_exit { NeverBlock.dump }"
    end
    earlier = Signal.trap(signal) { Dump.print_later(io) }
    return earlier unless block_given?
    begin
      yield
    ensure
      Signal.trap(signal, earlier || "DEFAULT")
    end
  end
end
