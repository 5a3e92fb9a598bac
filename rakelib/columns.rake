# frozen_string_literal: true

# Long lines and long files:
#
#   rake lint:columns     # fails where a line has over 120 columns, or a file over 400 lines
namespace :lint do
  desc "Look for lines over 120 columns and files over 400 lines, in lib and ext"
  task :columns do
    require_relative "columns"
    findings = Lint::Columns.new.findings
    abort [*findings, "Break long lines at natural places. Divide long files."].join("\n") if findings.any?
  end
end

task lint: "lint:columns"
