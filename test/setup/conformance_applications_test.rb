# frozen_string_literal: true

require "test_helper"
%w[application load comparison report].each { |file| require_relative "../conformance/applications/#{file}" }

# The parts of rake conformance:applications that need no application.
class ConformanceApplicationsTest < Minitest::Test
  include NeverBlockTest::Helpers

  Applications = Conformance::Applications

  # A run writes the page anew with the introduction that it has: one that was changed by hand only would be lost.
  def test_the_page_begins_with_the_introduction_of_the_report
    assert File.read(Conformance::Report::PATH).start_with?(Conformance::Report::INTRODUCTION.strip)
  end

  # Logs in with a cookie and a token, and reports the visitor.
  class Site
    PAGE = %(<meta name="csrf-token" content="right">)

    attr_reader :port

    def initialize
      @listener = TCPServer.new("127.0.0.1", 0)
      @port = @listener.addr[1]
      @threads = [Thread.new { loop { serve(@listener.accept) } }]
    end

    def stop
      @threads.each { |thread| thread.kill.join }
      @listener.close
    end

    private

    def serve(socket)
      @threads << Thread.new do
        while (line = socket.gets)
          head = socket.gets("\r\n\r\n")
          body = socket.read(head[/^content-length: (\d+)/i, 1].to_i)
          answer(socket, line, head, body)
        end
      end
    end

    def answer(socket, line, head, body)
      return say(socket, 200, PAGE, "set-cookie: session=#{body[/\d+/] || "none"}; path=/\r\n") if line.start_with?("GET /login")
      return say(socket, head.match?(/^x-csrf-token: right/i) ? 302 : 422, "", "set-cookie: session=#{body[/\d+/]}; path=/\r\n") if line.start_with?("POST")
      say(socket, 200, "user #{head[/^cookie: session=(\d+)/i, 1]} #{rand}")
    end

    def say(socket, status, body, fields = "") = socket.write("HTTP/1.1 #{status} -\r\n#{fields}content-length: #{body.bytesize}\r\n\r\n#{body}")
  end

  LOGIN = [{"get" => "/login"}, {"post" => "/login", "form" => {"name" => "user%{n}"}, "status" => 302}].freeze

  def setup = @site = Site.new

  def teardown = @site.stop

  def test_visitors_log_in_with_the_token_of_the_form_and_are_told_apart
    figures = load(visit: [{"get" => "/me", "expect" => "user %{n}"}]).call
    assert_empty figures.fetch("mistakes")
    assert_equal 3 * (2 + 4), figures.fetch("requests")
    assert_operator figures.fetch("p50"), :<=, figures.fetch("p99")
  end

  def test_a_wrong_status_and_a_missing_text_are_mistakes
    mistakes = load(visit: [{"get" => "/me", "expect" => "user 99"}, {"get" => "/me", "status" => 404}]).walk.filter_map(&:mistake)
    assert_equal ["get /me: without \"user 99\"", "get /me: 200 where 404 was expected"], mistakes
  end

  def test_a_server_that_is_gone_is_a_mistake
    port = NeverBlockTest::Peer.free_port
    answer = Applications::Visitor.new(port, 1).call({"get" => "/"})
    assert_match(/\Aget \/: Errno::ECONNREFUSED/, answer.mistake)
  end

  def test_without_a_checkout_it_says_which_variables_there_are
    nothing = {"NEVERBLOCK_CAMPFIRE" => nil, "NEVERBLOCK_REDMINE" => nil, "NEVERBLOCK_APPLICATION" => nil}
    outcome = run_ruby(<<~RUBY, environment: nothing, gems: true)
      require "./test/conformance/applications/application"
      begin
        Conformance::Applications::Application.given
      rescue Conformance::Applications::Application::Missing => error
        puts error.message
      end
    RUBY
    assert_match(%r{\AName the checkout.* NEVERBLOCK_CAMPFIRE=/path or NEVERBLOCK_REDMINE=/path}, outcome.stdout, outcome.stderr)
  end

  private

  def load(visit:) = Applications::Load.new(@site.port, login: LOGIN, visit:, visitors: 3, visits: 4)
end
