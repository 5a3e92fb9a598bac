# frozen_string_literal: true

# The layers and their dependencies:
#
#   rake lint:layers     # fails where an #include, a constant or a require leads to a layer above, by layers/layers.yml
namespace :lint do
  desc "Look for references from a layer to one above it, by the table in rakelib/layers/layers.yml"
  task :layers do
    require_relative "layers/layers"
    findings = Lint::Layers.new.findings
    abort [*findings, "Let the upper layer register or fill in a callback, or move the file."].join("\n") if findings.any?
  end
end

task lint: "lint:layers"
