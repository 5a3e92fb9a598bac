# frozen_string_literal: true

# Style and warnings, each of which fails the run:
#
#   rake lint            # all of them
#   rake lint:ruby       # StandardRB
#   rake lint:changed    # the same for files that have changed since it passed: style_files.rb
#   rake lint:sig        # the RBS signatures
#   rake lint:c          # the extension with strict warnings as errors
#   rake lint:layers     # references from a layer to one above it, by layers/layers.yml
#   rake lint:duplicates # twelve lines that stand twice outside of tests: duplicates.rb
#   rake lint:words      # old names and phrases, by words.yml
#   rake lint:columns    # lines over 120 columns and files over 400 lines
#   rake lint:sleeps     # tests that sleep; LIST=1 names them
namespace :lint do
  desc "Check the Ruby code with StandardRB"
  task(:ruby) { check_style }

  desc "Check the Ruby files with StandardRB that have changed since they passed"
  task :changed do
    require_relative "style_files"
    files = StyleFiles.new
    changed = files.changed
    puts changed ? "#{changed.size} files have changed" : "all files are checked"
    check_style(*changed) unless changed == []
    files.passed
  end

  desc "Check the signatures in sig/ with RBS"
  task :sig do
    lint_tool("rbs", "rbs", *%w[io-console net-http open3 openssl socket timeout uri etc].flat_map { |name| ["-r", name] }, "-I", "sig", "validate")
  end

  desc "Compile the C extension with strict warnings as errors"
  task :c do
    # Ruby's own headers have some of these; the warnings for our code are named one by one.
    flags = "-Wall -Wextra -Werror -Wno-unused-parameter -Wno-missing-field-initializers -Wshadow"
    ExtensionBuild.new(variant: "strict", warnflags: flags).call
  end

  # Our own: what they look for, their files, and what to do about a finding.
  {
    layers: ["references from a layer to one above it, by the table in rakelib/layers/layers.yml", "layers/layers",
      "Let the upper layer register or fill in a callback, or move the file."],
    duplicates: ["twelve lines that stand twice outside of tests", "duplicates", "Give what they do a name, in one place."],
    words: ["old names and phrases, by the table in rakelib/words.yml", "words", "Write what the table says."],
    columns: ["lines over 120 columns and files over 400 lines, in lib and ext", "columns", "Break long lines at natural places. Divide long files."]
  }.each do |name, (what, file, remedy)|
    desc "Look for #{what}"
    task name do
      require_relative file
      findings = Lint.const_get(name.capitalize).new.findings
      abort [*findings, remedy].join("\n") if findings.any?
    end
  end

  # Sleeps without a reason: none is left.
  sleeps = 0

  desc "Count the tests that sleep"
  task :sleeps do
    require_relative "sleeps"
    lint = Lint::Sleeps.new
    lint.counts.each { |folder, count| puts format("%4d  %s", count, folder) }
    puts lint.findings if ENV["LIST"] || lint.findings.size > sleeps
    if lint.findings.size > sleeps
      abort "#{lint.findings.size} sleeps, and #{sleeps} are allowed (rakelib/lint.rake). Wait for a condition, include " \
        "VirtualTime, or write \"# real: \" and what the sleep waits for."
    end
  end
end

desc "Check style, signatures and warnings"
task lint: %w[lint:ruby lint:sig lint:c lint:layers lint:duplicates lint:words lint:columns lint:sleeps]

# StandardRB uses all processors (.standard.yml), and keeps its results in tmp/style for files that stay the same.
def check_style(*files)
  lint_tool("standard", "standardrb", "--no-fix", "--cache-root", "tmp/style", *files)
end

def lint_tool(gem, program, *)
  unless Gem.loaded_specs.key?(gem)
    abort "#{gem} is not installed (bin/setup leaves the style tools out on preview Rubies that can't compile them): bundle install"
  end
  system(RbConfig.ruby, *("--yjit" if defined?(RubyVM::YJIT)), Gem.bin_path(gem, program), *, exception: true)
end
