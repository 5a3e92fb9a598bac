# frozen_string_literal: true

# Why a contestant has no figure in a cell: its process failed, ran too long, or
# could not do what the cell asks. Printed below the table, never hidden.
module Bench
  class Failure < StandardError
  end
end
