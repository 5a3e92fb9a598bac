# frozen_string_literal: true

# slow: it runs a suite that waits for responses to become stale (30 s)

require "test_helper"
require "conformance/http_cache/run"

# The proxy's cache passes http-cache-tests, but for what exclusions.yml names: rake conformance:http_cache.
class HttpCacheConformanceTest < Minitest::Test
  HttpCache = Conformance::HttpCache

  # Least numbers, which no exclusion may lower: of the package of npm, and of a checkout.
  LEAST = {package: {"required" => 135, "optimal" => 70}, checkout: {"required" => 151, "optimal" => 86}}.freeze

  def test_the_suite
    package = begin
      HttpCache::Package.find
    rescue HttpCache::Package::Missing => error
      skip error.message
    end
    verdicts = HttpCache::Run.new(package, HttpCache::Contestant.named("neverblock")).call.verdicts
    assert_empty verdicts.unexpected
    assert_empty verdicts.needless
    assert_empty verdicts.unknown
    LEAST.fetch(package.checkout? ? :checkout : :package).each { |kind, least| assert_operator verdicts.passed(kind).size, :>=, least, kind }
  end
end
