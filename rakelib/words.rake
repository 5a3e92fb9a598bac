# frozen_string_literal: true

# Old names and phrases:
#
#   rake lint:words     # fails where the code or a page has one of the table words.yml
namespace :lint do
  desc "Look for old names and phrases, by the table in rakelib/words.yml"
  task :words do
    require_relative "words"
    findings = Lint::Words.load.findings
    abort [*findings, "Write what the table says."].join("\n") if findings.any?
  end
end

task lint: "lint:words"
