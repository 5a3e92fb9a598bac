# frozen_string_literal: true

# The Ruby half of bin/vendor. It needs no gem:
#
#   ruby bin/lib/vendor/main.rb /home/me/shop
require_relative "app"
require_relative "package"

begin
  Vendor::App.new(ARGV.fetch(0)).take(Vendor::Package.new(File.expand_path("../../..", __dir__)))
rescue Vendor::Refused => error
  what, *remedies = error.message.lines(chomp: true)
  abort ["", what, *remedies.map { |line| "  #{line}" }].join("\n")
rescue SystemCallError => error
  abort "\n#{error.message}\n  The Gemfile is as it was. Make that path writable, and call bin/vendor again"
end
