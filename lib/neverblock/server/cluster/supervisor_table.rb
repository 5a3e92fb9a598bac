# frozen_string_literal: true

require_relative "../machine"

module NeverBlock
  class Server
    module Cluster
      # The supervisor's state machine: what it does at each event, in each state, and the next state.
      # docs/operations.md has the same table.
      #
      #   SupervisorTable.cell("TERM", "serving")   # => ["drain", "draining"]
      #
      # An action is a method of {Supervisor} or {Deployment}.
      # @api private
      SupervisorTable = Machine::Table.new(<<~TABLE)
        | event               | booting                  | serving                     | reloading          | restarting               | handing over       | draining    |
        | ------------------- | ------------------------ | --------------------------- | ------------------ | ------------------------ | ------------------ | ----------- |
        | TERM, INT           | drain → draining         | drain → draining            | drain → draining   | drain → draining         | drain → draining   | escalate    |
        | USR1                | later                    | load → reloading            | later              | later                    | later              | ignore      |
        | USR2                | later                    | load → restarting           | later              | later                    | later              | ignore      |
        | HUP                 | reopen logs              | reopen logs                 | reopen logs        | reopen logs              | reopen logs        | reopen logs |
        | TTIN                | add worker               | add worker                  | add worker         | add worker               | add worker         | ignore      |
        | TTOU                | remove worker            | remove worker               | remove worker      | remove worker            | remove worker      | ignore      |
        | app loaded          | begin serving            | replace workers → reloading | replace workers    | hand over → handing over | never              | discard     |
        | load failed         | give up → draining       | keep old                    | keep old → serving | keep old → serving       | never              | ignore      |
        | all workers serve   | announce ready → serving | announce ready              | announce ready     | announce ready           | ignore             | ignore      |
        | workers replaced    | never                    | ignore                      | settle → serving   | ignore                   | ignore             | ignore      |
        | handover failed     | never                    | never                       | never              | never                    | keep old → serving | ignore      |
        | template ended      | load                     | load → reloading            | ignore             | ignore                   | ignore             | ignore      |
        | worker ended        | report exit              | report exit                 | report exit        | report exit              | report exit        | report exit |
        | worker asked to end | replace worker           | replace worker              | replace worker     | replace worker           | replace worker     | ignore      |
        | sidecar ended       | start again              | start again                 | start again        | start again              | ignore             | start again |
      TABLE
    end
  end
end
