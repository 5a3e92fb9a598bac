# frozen_string_literal: true

require_relative "lib/neverblock/version"

Gem::Specification.new do |spec|
  spec.name = "neverblock"
  spec.version = NeverBlock::VERSION
  spec.authors = ["NeverBlock contributors"]
  spec.summary = "Plain Ruby that never blocks: every wait parks a fiber, never the process."
  spec.description = "A Fiber::Scheduler with a native engine (epoll, io_uring, poll) and a small set of words - " \
    "run, spawn, concurrently, timeout - that let ordinary blocking Ruby code run concurrently on one thread; and a web server for Rack apps " \
    "(neverblock serve) in which each request has a fiber of its own."
  spec.license = "MIT"
  spec.required_ruby_version = ">= 3.3"

  # Globs rather than `git ls-files`, so that the gem also builds from an
  # unpacked archive; compiled objects never match.
  spec.files = Dir.chdir(__dir__) do
    Dir["lib/**/*.{rb,tt}", "ext/**/*.{c,h,rb}", "exe/*", "sig/**/*.rbs", "docs/**/*.md",
      "README.md", "CHANGELOG.md", "LICENSE", "SECURITY.md", ".yardopts"].grep_v(%r{/fuzz/}).sort
  end
  spec.extensions = ["ext/neverblock/extconf.rb"]
  spec.require_paths = ["lib"]
  spec.bindir = "exe"
  spec.executables = ["neverblock"]

  # Rack::Builder reads config.ru. Nothing of it is loaded by `require "neverblock"`: docs/dependencies.md.
  spec.add_dependency "rack", ">= 2.2", "< 4"

  spec.metadata["rubygems_mfa_required"] = "true"

  # bin/vendor leaves a file REVISION in the copy that it puts into an app: `bundle install` compiles that one.
  revision = File.join(__dir__, "REVISION")
  if File.exist?(revision) && defined?(Bundler)
    require_relative "lib/neverblock/runtime/vendored_extension"
    NeverBlock::VendoredExtension.new(spec, File.read(revision).strip).announce
  end

  # Where the project is hosted is said when the gem is built: `rake build` takes it from git's remote "origin". Without it
  # the gem has no addresses.
  if (forge = ENV["NEVERBLOCK_FORGE"]) && !forge.empty?
    release = "v#{spec.version}"
    spec.homepage = forge
    spec.metadata.update(
      "homepage_uri" => forge,
      "source_code_uri" => "#{forge}/tree/#{release}",
      "changelog_uri" => "#{forge}/blob/#{release}/CHANGELOG.md",
      "documentation_uri" => "#{forge}/blob/#{release}/docs/README.md",
      "bug_tracker_uri" => "#{forge}/issues"
    )
  end
end
