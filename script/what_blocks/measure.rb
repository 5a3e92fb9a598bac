# frozen_string_literal: true

# Measures this Ruby on the engine that NEVERBLOCK_ENGINE names, and prints the
# verdicts as JSON; script/what_blocks.rb starts it, with the slow resolver.
#
#   ruby -Ilib script/what_blocks/measure.rb [parts of the rows' names]
#
# EXPECTED has the verdicts that the document gives, as JSON, where measuring is a check; KINDS names the kinds of rows
# that are measured.
require "json"
require_relative "catalogue"
require_relative "measurement"

begin
  NeverBlock.run {} # an engine that cannot be had here says so now, in one place
rescue NeverBlock::ConfigurationError => error
  puts JSON.generate("unavailable" => error.message)
  exit
end

kinds = ENV["KINDS"]&.split(",")&.map(&:to_sym)
expected = JSON.parse(ENV.fetch("EXPECTED", "{}"))
rows = WhatBlocks::Catalogue.rows(*ARGV).select { |row| kinds.nil? || kinds.include?(row.kind) }
done = 0
verdicts = WhatBlocks::Measurement.new(rows, expected:) do |row, verdict, detail|
  done += 1
  warn "#{row.key}: #{verdict} (#{detail})" if ARGV.any? || !verdict.final?
  $stderr.print "\r#{done}/#{rows.size} " if $stderr.tty?
end.call
puts JSON.generate("engine" => NeverBlock.engine.name.to_s, "verdicts" => verdicts)
