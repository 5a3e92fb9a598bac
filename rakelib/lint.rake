# frozen_string_literal: true

# Style and warnings, each of which fails the run:
#
#   rake lint            # all of them
#   rake lint:ruby       # StandardRB
#   rake lint:sig        # the RBS signatures
#   rake lint:c          # the extension with strict warnings as errors
namespace :lint do
  desc "Check the Ruby code with StandardRB"
  task :ruby do
    lint_tool("standard", "standardrb", "--no-fix")
  end

  desc "Check the signatures in sig/ with RBS"
  task :sig do
    lint_tool("rbs", "rbs", *%w[io-console net-http open3 openssl socket timeout uri etc].flat_map { |name| ["-r", name] }, "-I", "sig", "validate")
  end

  desc "Compile the C extension with strict warnings as errors"
  task :c do
    # Ruby's own headers are not free of these; what is asked of ours is named one by one.
    flags = "-Wall -Wextra -Werror -Wno-unused-parameter -Wno-missing-field-initializers -Wshadow"
    ExtensionBuild.new(variant: "strict", warnflags: flags).call
  end
end

desc "Check style, signatures and warnings"
task lint: %w[lint:ruby lint:sig lint:c]

def lint_tool(gem, program, *)
  unless Gem.loaded_specs.key?(gem)
    abort "#{gem} is not installed (bin/setup leaves the style tools out on preview Rubies that can't compile them): bundle install"
  end
  system(RbConfig.ruby, Gem.bin_path(gem, program), *, exception: true)
end
