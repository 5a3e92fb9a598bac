# frozen_string_literal: true

# All benchmarks of bin/bench. The class of "http_ratios" is Bench::HttpRatios, in benchmark/http_ratios/http_ratios.rb.
#
#   Bench::Catalogue.names                      # => ["runtime", "delays", ...]
#   Bench::Catalogue.rounds("runtime")          # => 7
#   Bench::Catalogue.load("http_ratios")        # => Bench::HttpRatios
module Bench
  module Catalogue
    # By name: how often everything is measured, and whether always with YJIT, as it runs in production.
    ALL = {
      "runtime" => [7, false], "delays" => [3, false], "fibers" => [3, false],
      "servers" => [3, true], "proxied" => [7, true], "rails" => [3, true],
      "database" => [3, true], "mysql" => [5, true], "cost" => [10, true], "active_record" => [3, true],
      "http_ratios" => [3, true], "rails_workloads" => [3, true], "rails_sqlite" => [1, true],
      "tenants" => [7, false], "stores" => [1, true], "cache" => [3, true], "proxy" => [3, true], "large_answers" => [3, false], "offload_sizes" => [3, false],
      "crowded" => [3, true], "scaling" => [3, true]
    }.freeze

    module_function

    # @return [Array<String>]
    def names = ALL.keys

    # @param name [String]
    # @return [Integer]
    def rounds(name) = ALL.fetch(name).first

    # @param name [String]
    # @return [Boolean] whether it is always measured with YJIT
    def yjit?(name) = ALL.fetch(name).last

    # @param name [String]
    # @return [Class] the benchmark
    def load(name)
      require_relative "../#{name}/#{name}"
      Bench.const_get(name.split("_").map(&:capitalize).join)
    end
  end
end
