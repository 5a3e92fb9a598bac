# frozen_string_literal: true

module NeverBlock
  # Prints what {dump} does whenever the process gets a signal. It is printed from a thread of its own, so that a loop that is
  # stuck in Ruby code is told about too.
  #
  #   NeverBlock.dump_on(:USR2)      # kill -USR2 4711
  #
  # `neverblock serve` has meanings of its own for USR1, USR2 and others: take PROF there.
  #
  # @param signal [Symbol, String, Integer] as in Signal.trap
  # @param io [#write]
  # @return [Object] with a block its value, and the signal's earlier handler is back; without one that handler, as
  #   Signal.trap returns it
  # @raise [ArgumentError, SystemCallError] for signals that can't be trapped, as Signal.trap; for EXIT; if the io has no write
  def self.dump_on(signal, io: $stderr)
    Options.writer("io", io)
    if %w[0 EXIT SIGEXIT].include?(signal.to_s)
      raise ArgumentError, "dump_on: at #{signal.inspect} no thread prints any more. Use at_exit { NeverBlock.dump }"
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
