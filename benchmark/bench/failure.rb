# frozen_string_literal: true

require_relative "load_path"

# Why a contestant has no figure in a cell: its process failed, ran too long, or
# could not do what the cell asks. Printed below the table, never hidden.
#
#   raise Failure.of("ended with exit 1", File.readlines(log))
module Bench
  class Failure < StandardError
    LINES = 3
    REASONS = /error|bug|fault|fatal|exception/i
    LONGEST = 300 # characters
    FOLDERS = %r{(?<![\w.:/])/(?:[\w.+-]+/)+} # of the machine it ran on, which mean nothing elsewhere

    # @param reason [String]
    # @param lines [Array<String>] what the process said, of which that is told first that looks like a reason
    # @return [Failure]
    def self.of(reason, lines)
      lines = lines.map { |line| line.scrub.strip.gsub("#{LoadPath::ROOT}/", "").gsub(FOLDERS, "…/") }.reject(&:empty?)
      told = lines.grep(REASONS).first(LINES)
      told = lines.last(LINES) if told.empty?
      new([reason, *(told.join(" / ")[0, LONGEST] unless told.empty?)].join(": "))
    end
  end
end
