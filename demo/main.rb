# frozen_string_literal: true

# What bin/demo runs once everything is set up:
#
#   ruby -Ilib demo/main.rb [--quick]
#
# Status 0 when every claim held, 1 when one did not, 130 on Ctrl-C.
require "optparse"

quick = false
parser = OptionParser.new do |options|
  options.banner = "Usage: bin/demo [--quick]"
  options.on("--quick", "shorter waits and fewer requests: a few seconds in all") { quick = true }
end
begin
  parser.parse!
  raise OptionParser::NeedlessArgument, ARGV.first if ARGV.any?
rescue OptionParser::ParseError => error
  abort "bin/demo: #{error.message}\n#{parser}"
end

begin
  require_relative "tour"
  exit Demo::Tour.new(quick:).run
rescue Interrupt
  warn "\ninterrupted"
  exit 130
rescue Errno::EPIPE # the reader of a pipe has seen enough
  exit 0
end
