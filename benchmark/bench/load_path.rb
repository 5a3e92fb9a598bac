# frozen_string_literal: true

# The folders that a measured process needs in its $LOAD_PATH: NeverBlock's lib and
# the peers' gems. Found once, so that no measured process starts Bundler.
#
#   Bench::LoadPath.flags      # => ["-I", ".../lib", "-I", ".../async-2.46.0/lib", ...]
require "bundler"

module Bench
  module LoadPath
    ROOT = File.expand_path("../..", __dir__)
    GEMFILE = File.join(ROOT, "benchmark", "Gemfile")
    # For the environment of what is measured: nothing of this process's own Bundler.
    UNBUNDLED = {"RUBYOPT" => nil, "BUNDLER_SETUP" => nil, "BUNDLE_GEMFILE" => nil, "BUNDLE_LOCKFILE" => nil}.freeze

    module_function

    # @param groups [Array<Symbol>] of the benchmarks' Gemfile
    # @param root [String] the checkout whose library is measured
    # @return [Array<String>] arguments for ruby
    def flags(*groups, root: ROOT) = (@flags ||= {})[[root, groups]] ||= [File.join(root, "lib"), *folders(*groups)].flat_map { |path| ["-I", path] }

    # @return [Hash{String=>String}] names and versions of everything installed
    def versions = without_bundler(Bundler.load.specs).to_h { |specification| [specification.name, specification.version.to_s] }

    # @param groups [Array<Symbol>] of the benchmarks' Gemfile
    # @return [Array<String>] folders with the Ruby files of these peers and of what they need
    def folders(*groups) = peers(*groups).flat_map(&:full_require_paths).uniq

    # @param groups [Array<Symbol>]
    # @return [Array<Gem::Specification>] the peers and what they need; empty for a group that is not installed
    def peers(*groups)
      (@peers ||= {})[groups] ||= without_bundler(Bundler.definition.specs_for(groups))
    rescue Bundler::GemNotFound
      []
    end

    def without_bundler(specifications) = specifications.to_a.reject { |specification| specification.name == "bundler" }
    private_class_method :without_bundler
  end
end
