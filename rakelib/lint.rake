# frozen_string_literal: true

# Style and warnings, each of which fails the run:
#
#   rake lint            # all of them
#   rake lint:ruby       # StandardRB
#   rake lint:sig        # the RBS signatures
#   rake lint:c          # the extension with strict warnings as errors
#   rake lint:layers     # references from a layer to one above it: lint/layers.yml
#   rake lint:words      # old names and phrases: lint/words.yml
namespace :lint do
  desc "Check the Ruby code with StandardRB"
  task :ruby do
    lint_tool("standard", "standardrb", "--no-fix")
  end

  desc "Check the signatures in sig/ with RBS"
  task :sig do
    lint_tool("rbs", "rbs", *%w[io-console net-http open3 openssl socket timeout uri etc].flat_map { |name| ["-r", name] }, "-I", "sig", "validate")
  end

  desc "Look for references from a layer to one above it, by the table in rakelib/lint/layers.yml"
  task :layers do
    require_relative "lint/layers"
    report_findings(Lint::Layers.new.findings, "Let the upper layer register or fill in a callback, or move the file")
  end

  desc "Compile the C extension with strict warnings as errors"
  task :c do
    # Ruby's own headers are not free of these; what is asked of ours is named one by one.
    flags = "-Wall -Wextra -Werror -Wno-unused-parameter -Wno-missing-field-initializers -Wshadow"
    ExtensionBuild.new(variant: "strict", warnflags: flags).call
  end

  desc "Look for old names and phrases, by the table in rakelib/lint/words.yml"
  task :words do
    require_relative "lint/words"
    report_findings(Lint::Words.load.findings, "Write what the table says, or change the table")
  end
end

desc "Check style, signatures and warnings"
task lint: %w[lint:ruby lint:sig lint:c lint:layers lint:words]

def report_findings(findings, remedy) = findings.any? && abort([*findings, "#{findings.size} findings. #{remedy}."].join("\n"))

def lint_tool(gem, program, *)
  unless Gem.loaded_specs.key?(gem)
    abort "#{gem} is not installed (bin/setup leaves the style tools out on preview Rubies that can't compile them): bundle install"
  end
  system(RbConfig.ruby, Gem.bin_path(gem, program), *, exception: true)
end
