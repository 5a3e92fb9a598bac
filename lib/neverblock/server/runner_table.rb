# frozen_string_literal: true

require_relative "machine"

module NeverBlock
  class Server
    # The state machine of a single process (`workers 0`): what it does at each event, in each state, and the next
    # state. docs/operations.md has the same table.
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
