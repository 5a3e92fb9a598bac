# frozen_string_literal: true

module NeverBlock
  # Prints the tree of scopes and tasks of every loop of the process (of the calling Ractor): name, age, what each task waits
  # for, where it was spawned, its backtrace. From any thread, also while a loop stands still. See also {dump_on}.
  #
  #   NeverBlock.dump
  #   File.open("tasks.txt", "w") { |file| NeverBlock.dump(file) }
  #
  # @param io [#write]
  # @return [nil]
  # @raise [ArgumentError] if the io has no write
  def self.dump(io = $stderr)
    Options.writer("dump", io).write(Dump.new.text)
    nil
  end
end
