# frozen_string_literal: true

module NeverBlock
  # Prints the tree of scopes and tasks of every loop in the process (in the calling Ractor). Each task is printed with
  # its name, age, wait, place of spawning and backtrace. Thread-safe; works while a loop is stuck. See also {dump_on}.
  #
  #   NeverBlock.dump
  #   File.open("tasks.txt", "w") { |file| NeverBlock.dump(file) }
  #
  # @param io [#write]
  # @return [nil]
  # @raise [ArgumentError] unless the io responds to write
  def self.dump(io = $stderr)
    Options.writer("dump", io).write(Dump.new.text)
    nil
  end
end
