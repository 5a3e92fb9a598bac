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
    RunnerTable = Machine::Table.new(<<~TABLE, <<~MORE)
      | event         | booting                  | serving          | checking                   |
      | ------------- | ------------------------ | ---------------- | -------------------------- |
      | TERM, INT     | end at once              | drain → draining | drain → draining           |
      | USR1, USR2    | later                    | check → checking | check again                |
      | HUP           | ignore                   | reopen logs      | reopen logs                |
      | QUIT          | tell backtraces          | tell backtraces  | tell backtraces            |
      | TTIN, TTOU    | ignore                   | refuse workers   | refuse workers             |
      | app loaded    | announce ready → serving | never            | never                      |
      | checked       | never                    | never            | begin anew → starting anew |
      | check failed  | never                    | never            | keep on → serving          |
      | sidecar ended | never                    | start again      | start again                |
    TABLE
      | event         | starting anew    | draining        |
      | ------------- | ---------------- | --------------- |
      | TERM, INT     | drain → draining | escalate        |
      | USR1, USR2    | ignore           | ignore          |
      | HUP           | reopen logs      | reopen logs     |
      | QUIT          | tell backtraces  | tell backtraces |
      | TTIN, TTOU    | ignore           | ignore          |
      | app loaded    | never            | never           |
      | checked       | never            | ignore          |
      | check failed  | never            | ignore          |
      | sidecar ended | start again      | start again     |
    MORE
  end
end
