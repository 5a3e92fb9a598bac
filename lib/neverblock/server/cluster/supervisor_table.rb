# frozen_string_literal: true

require_relative "../machine"

module NeverBlock
  class Server
    module Cluster
      # The supervisor's state machine: what it does at each event, in each state, and the next state.
      # docs/operations.md has the same table. Here it stands in two halves, of three states each.
      #
      #   SupervisorTable.cell("TERM", "serving")   # => ["drain", "draining"]
      #
      # An action is a method of {Supervisor} or {Deployment}.
      # @api private
      SupervisorTable = Machine::Table.new(<<~UP, <<~CHANGING)
        | event               | booting                  | serving                     | reloading          |
        | ------------------- | ------------------------ | --------------------------- | ------------------ |
        | TERM, INT           | drain → draining         | drain → draining            | drain → draining   |
        | USR1                | later                    | load → reloading            | later              |
        | USR2                | later                    | load → restarting           | later              |
        | HUP                 | reopen logs              | reopen logs                 | reopen logs        |
        | QUIT                | ask for backtraces       | ask for backtraces          | ask for backtraces |
        | TTIN                | add worker               | add worker                  | add worker         |
        | TTOU                | remove worker            | remove worker               | remove worker      |
        | app loaded          | begin serving            | replace workers → reloading | replace workers    |
        | load failed         | give up → draining       | keep old                    | keep old → serving |
        | all workers serve   | announce ready → serving | announce ready              | announce ready     |
        | workers replaced    | never                    | ignore                      | settle → serving   |
        | handover failed     | never                    | never                       | never              |
        | template ended      | load                     | load → reloading            | ignore             |
        | worker ended        | report exit              | report exit                 | report exit        |
        | worker asked to end | replace worker           | replace worker              | replace worker     |
        | sidecar ended       | start again              | start again                 | start again        |
      UP
        | event               | restarting               | handing over       | draining           |
        | ------------------- | ------------------------ | ------------------ | ------------------ |
        | TERM, INT           | drain → draining         | drain → draining   | escalate           |
        | USR1                | later                    | later              | ignore             |
        | USR2                | later                    | later              | ignore             |
        | HUP                 | reopen logs              | reopen logs        | reopen logs        |
        | QUIT                | ask for backtraces       | ask for backtraces | ask for backtraces |
        | TTIN                | add worker               | add worker         | ignore             |
        | TTOU                | remove worker            | remove worker      | ignore             |
        | app loaded          | hand over → handing over | never              | discard            |
        | load failed         | keep old → serving       | never              | ignore             |
        | all workers serve   | announce ready           | ignore             | ignore             |
        | workers replaced    | ignore                   | ignore             | ignore             |
        | handover failed     | never                    | keep old → serving | ignore             |
        | template ended      | ignore                   | ignore             | ignore             |
        | worker ended        | report exit              | report exit        | report exit        |
        | worker asked to end | replace worker           | replace worker     | ignore             |
        | sidecar ended       | start again              | ignore             | start again        |
      CHANGING
    end
  end
end
