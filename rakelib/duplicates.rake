# frozen_string_literal: true

# Code that stands twice:
#
#   rake lint:duplicates     # fails where twelve lines outside of tests do: duplicates.rb
namespace :lint do
  desc "Look for twelve lines that stand twice outside of tests"
  task :duplicates do
    require_relative "duplicates"
    findings = Lint::Duplicates.new.findings
    abort [*findings, "Give what they do a name, in one place."].join("\n") if findings.any?
  end
end

task lint: "lint:duplicates"
