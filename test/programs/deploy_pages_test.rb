# frozen_string_literal: true

require "test_helper"
require "json"
require "open3"
require "tempfile"
require "yaml"
require "neverblock/server"
require "neverblock/server/cluster/worker_process"
require "support/doc_block"
require "support/peer"

# Checks the pages in docs/deploy for software that can't run here, as far as possible. Pages with proxies are tested in
# deploy_test.rb.
class DeployPagesTest < Minitest::Test
  PAGES = Dir.glob("docs/deploy/*.md", base: NeverBlockTest::ROOT).sort
  GRACE = NeverBlock::Server::Cluster::WorkerProcess::GRACE

  PAGES.each do |page|
    define_method(:"test_configurations_in_#{File.basename(page, ".md")}") do
      NeverBlockTest::DocBlock.in(page).each { |block| configuration(block) }
    end
  end

  def test_systemd_takes_its_units
    skip "systemd-analyze is not installed" unless NeverBlockTest::Peer.find("systemd-analyze")
    Dir.mktmpdir("nb") do |folder|
      service, socket = NeverBlockTest::DocBlock.in("docs/deploy/systemd.md", "ini").map(&:code)
      File.write("#{folder}/shop.service", service.sub("/usr/local/bin/bundle", RbConfig.ruby))
      File.write("#{folder}/shop.socket", socket)
      output, status = Open3.capture2e("systemd-analyze", "verify", "--man=no", "#{folder}/shop.socket", "#{folder}/shop.service")
      assert_empty output
      assert_predicate status, :success?
    end
  end

  def test_systemd_waits_for_the_end
    unit = block("systemd", "ini").scan(/^(\w+)=(.*)$/).to_h
    assert_operator unit.fetch("TimeoutStopSec").to_i, :>, longest_stop(NeverBlock::Server::Configuration.new)
    assert_equal "mixed", unit["KillMode"]
  end

  # bin/rails server in development reads the file too.
  def test_nginx_s_address_is_that_of_production
    block = NeverBlockTest::DocBlock.in("docs/deploy/nginx.md").first
    assert_equal ["unix:///run/shop/app.sock"], configuration(block).addresses.map { |address| address.to_s[/\A[^?]+/] }
    refute development(block).set?(:bind)
  end

  def test_kubernetes
    spec = YAML.load(block("kubernetes", "yaml")).dig("spec", "template", "spec")
    container = spec["containers"].first
    settings = configuration(NeverBlockTest::DocBlock.in("docs/deploy/kubernetes.md").first)
    ports = container["ports"].to_h { |port| [port["name"], port["containerPort"]] }
    assert_equal [ports["http"]], settings.addresses.map(&:port)
    assert_equal ports["health"], settings[:health].port
    probes = %w[startup readiness liveness].map { |name| container["#{name}Probe"]["httpGet"].values_at("path", "port") }
    assert_equal [%w[/readyz health], %w[/readyz health], %w[/livez health]], probes
    assert_equal settings[:boot_timeout], container["startupProbe"].values_at("periodSeconds", "failureThreshold").reduce(:*)
    assert_operator container["readinessProbe"].values_at("periodSeconds", "failureThreshold").reduce(:*), :<, settings.drain_delay
    assert_operator spec["terminationGracePeriodSeconds"], :>, longest_stop(settings)
    *parts, sum = File.read(File.join(NeverBlockTest::ROOT, "docs/deploy/kubernetes.md")).scan(/^\| .* \| (\d+) \|$/).flatten.map(&:to_i)
    assert_equal [settings.drain_delay, settings[:shutdown_timeout], GRACE], parts.first(3)
    assert_equal [spec["terminationGracePeriodSeconds"]] * 2, [parts.sum, sum]
  end

  def test_kamal
    deploy = YAML.load(block("kamal", "yaml"))
    settings = configuration(NeverBlockTest::DocBlock.in("docs/deploy/kamal.md").first)
    assert_equal [deploy.dig("proxy", "app_port")], settings.addresses.map(&:port)
    assert_operator deploy["drain_timeout"], :>, settings.drain_delay + settings[:shutdown_timeout]
  end

  private

  def block(page, language) = NeverBlockTest::DocBlock.in("docs/deploy/#{page}.md", language).first.code

  # @return [NeverBlock::Server::Configuration] the server's configuration, in production
  def configuration(block)
    Tempfile.create(["neverblock", ".rb"]) do |file|
      file.write(block.code)
      file.flush
      NeverBlock::Server::Configuration.new.tap do |configuration|
        in_production { configuration.load(file.path) }
        configuration.set(:environment, "production")
        configuration.check
      end
    end
  end

  def development(block)
    NeverBlock::Server::Configuration.new.tap do |configuration|
      Tempfile.create(["neverblock", ".rb"]) do |file|
        file.write(block.code)
        file.flush
        configuration.load(file.path)
      end
    end
  end

  def in_production
    before = ENV["RAILS_ENV"]
    ENV["RAILS_ENV"] = "production"
    yield
  ensure
    ENV["RAILS_ENV"] = before
  end

  # The longest time of a stop, in seconds.
  def longest_stop(configuration)
    configuration.set(:environment, "production")
    configuration.drain_delay + configuration[:shutdown_timeout] + GRACE
  end
end
