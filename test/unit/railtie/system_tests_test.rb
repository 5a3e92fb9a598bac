# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "neverblock/railtie/system_tests"
require "net/http"

# The server of system tests, with a Capybara of the test's own.
class RailtieSystemTestsTest < Minitest::Test
  include NeverBlockTest::Helpers

  # Stands for the gem.
  module Capybara
    class << self
      attr_accessor :server

      def servers = @servers ||= {default: :the_default}

      def register_server(name, &block) = servers[name] = block
    end
  end

  def test_without_capybara_nothing_is_registered
    assert_nil NeverBlock::Railtie::SystemTests.register
  end

  def test_it_is_the_default_unless_another_was_chosen
    with_capybara do
      {the_default: :neverblock, puma: :puma}.each do |before, after|
        Capybara.server = before
        NeverBlock::Railtie::SystemTests.register
        assert_equal after, Capybara.server
      end
    end
  end

  def test_it_serves_beside_the_tests
    with_capybara do
      NeverBlock::Railtie::SystemTests.register
      port = TCPServer.open("127.0.0.1", 0) { |server| server.local_address.ip_port }
      thread = Thread.new { Capybara.servers[:neverblock].call(->(_env) { [200, {}, ["served"]] }, port, "127.0.0.1") }
      wait_until("an answer") { (Net::HTTP.get(URI("http://127.0.0.1:#{port}/")) rescue nil) == "served" } # standard:disable Style/RescueModifier
    ensure
      thread&.kill&.join
    end
  end

  private

  # The constant, for the time of the block.
  def with_capybara
    Object.const_set(:Capybara, Capybara)
    yield
  ensure
    Object.send(:remove_const, :Capybara)
    Capybara.server = nil
  end
end
