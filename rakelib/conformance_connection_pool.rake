# frozen_string_literal: true

# The test file of the gem connection_pool, with NeverBlock::ConnectionPool under its name, outside of loops and inside:
#
#   NEVERBLOCK_CONNECTION_POOL=/a/checkout/of/version/3 rake conformance:connection_pool
#
# test/conformance/connection_pool/exclusions.yml has the tests that are left out, with the reasons.
namespace :conformance do
  desc "Run the tests of the gem connection_pool (NEVERBLOCK_CONNECTION_POOL=a checkout) with our pool"
  task connection_pool: :compile do
    require "yaml"
    folder = ENV["NEVERBLOCK_CONNECTION_POOL"].to_s
    unless File.file?(File.join(folder, "test", "test_connection_pool.rb"))
      abort "NEVERBLOCK_CONNECTION_POOL= a checkout of connection_pool 3: #{folder.inspect} has no test/test_connection_pool.rb"
    end
    here = File.expand_path("../test/conformance/connection_pool", __dir__)
    exclusions = YAML.load_file(File.join(here, "exclusions.yml"))
    exclusions.each { |name, reason| puts "left out: #{name}: #{reason}" }
    pattern = "/\\A(?:#{exclusions.keys.join("|")})\\z/"
    results = [[], ["in_loop"]].map do |mode|
      puts "\n#{mode.empty? ? "outside of loops" : "inside of a loop"}:"
      system(RbConfig.ruby, "-Ilib", File.join(here, "child.rb"), folder, *mode, "--exclude", pattern)
    end
    abort "not all tests have passed" unless results.all?
  end
end
