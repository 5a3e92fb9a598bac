# frozen_string_literal: true

require "test_helper"
require "neverblock/server"
require "neverblock/server/health"

# What is answered at the health address. With a server: test/programs/operations_probes_test.rb.
class ServerHealthTest < Minitest::Test
  Subject = Struct.new(:live?, :ready?, :stats)

  def test_probes
    {[true, true] => [200, 200], [true, false] => [200, 503], [false, false] => [503, 503]}.each do |states, statuses|
      health = NeverBlock::Server::Health.new(Subject.new(*states, {}))
      assert_equal statuses, %w[/livez /readyz].map { |path| health.call("REQUEST_METHOD" => "GET", "PATH_INFO" => path).first }
    end
  end

  def test_stats_are_json
    status, fields, body = NeverBlock::Server::Health.new(Subject.new(true, true, {workers: 2})).call("REQUEST_METHOD" => "GET", "PATH_INFO" => "/stats")
    assert_equal [200, "application/json", %({"workers":2}\n)], [status, fields["content-type"], body.join]
  end

  def test_other_methods_are_refused
    status, = NeverBlock::Server::Health.new(Subject.new(true, true, {})).call("REQUEST_METHOD" => "POST", "PATH_INFO" => "/livez")
    assert_equal 405, status
  end

  def test_other_paths_are_named
    status, _, body = NeverBlock::Server::Health.new(Subject.new(true, true, {})).call("REQUEST_METHOD" => "GET", "PATH_INFO" => "/health")
    assert_equal [404, "there are /livez, /readyz, /stats and /metrics\n"], [status, body.join]
  end
end
