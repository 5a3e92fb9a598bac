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

    module_function

    # @return [Array<String>] arguments for ruby
    def flags = @flags ||= [File.join(ROOT, "lib"), *peers.flat_map(&:full_require_paths)].flat_map { |path| ["-I", path] }

    # @return [Hash{String=>String}] names and versions of the peers
    def versions = peers.to_h { |specification| [specification.name, specification.version.to_s] }

    # @return [Array<Gem::Specification>] the peers and what they need
    def peers
      @peers ||= Bundler.load.specs.to_a.reject { |specification| specification.name == "bundler" }
    end
  end
end
