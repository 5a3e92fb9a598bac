# frozen_string_literal: true

require_relative "machine"

module NeverBlock
  class Server
    # What a single process does: for each of its states, at each signal and at the end of a sidecar. docs/operations.md has
    # the same table.
    #
    #   RunnerTable.cell("TERM", "serving")   # => ["drain", "draining"]
    #
    # An action is a method of {Runner}.
    # @api private
    RunnerTable = Machine::Table.new(<<~TABLE)
      | event            | booting                  | serving                    | starting anew     | draining    |
      | ---------------- | ------------------------ | -------------------------- | ----------------- | ----------- |
      | TERM, INT        | end at once              | drain → draining           | drain → draining  | escalate    |
      | USR1, USR2       | later                    | begin anew → starting anew | ignore            | ignore      |
      | HUP              | ignore                   | reopen logs                | reopen logs       | reopen logs |
      | app loaded       | announce ready → serving | never                      | never             | never       |
      | nowhere to start | never                    | never                      | keep on → serving | never       |
      | sidecar ended    | never                    | start again                | start again       | start again |
    TABLE
  end
end
