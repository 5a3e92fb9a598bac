# frozen_string_literal: true

require "test_helper"
require "neverblock/server"
require "neverblock/server/control"

# What is answered at the control socket. With a server: test/programs/operations_commands_test.rb.
class ServerControlTest < Minitest::Test
  include NeverBlockTest::Helpers

  # Stands for a Supervisor or a Heartbeat.
  class Subject
    attr_reader :signals
    attr_accessor :result, :failures, :draining
    alias_method :draining?, :draining

    def initialize
      @signals = []
      @failures = []
    end

    def signalled(name) = @signals << name

    def load_anew(name) = (@signals << name) && @result

    def last_load = @result

    def reopen = @failures

    def stats = {state: "serving"}

    def command(name, argument) = @result.map { |worker, good, text| [worker, good, text || "#{name} #{argument}"] }
  end

  ELSEWHERE = [409, "#{NeverBlock::Server::Control::ELSEWHERE}\n"].freeze

  def setup
    @subject = Subject.new
    @control = NeverBlock::Server::Control.new(@subject)
  end

  def test_a_command_of_the_app
    @subject.result = [["worker 0", true], ["worker 1", true]]
    assert_equal [200, "each of 2 workers: purge https://a/?b=c&d\n"], ask("POST", "/app/purge", "https://a/?b=c&d")
    @subject.result = [["worker 0", true, "one\ntwo"], ["worker 1", false, "no"]]
    assert_equal [422, "worker 0: one\n  two\nworker 1: no\n"], ask("POST", "/app/purge", "x")
    @subject.result = []
    assert_equal [422, "no worker serves\n"], ask("POST", "/app/purge", "x")
    assert_equal 405, ask("POST", "/app/../stop", "x").first
    assert_equal 404, ask("GET", "/app/purge", "x").first
  end

  def test_stop_sends_one_term_however_often_it_is_asked
    2.times { assert_equal [202, "begun\n"], ask("POST", "/stop", "wait=no") }
    assert_equal %w[TERM], @subject.signals
  end

  def test_stop_sends_no_term_to_a_server_that_drains
    @subject.draining = true
    assert_equal [202, "begun\n"], ask("POST", "/stop", "wait=no")
    assert_empty @subject.signals
  end

  def test_stop_now_sends_the_second_term
    assert_equal [202, "begun\n"], ask("POST", "/stop", "wait=no&now=yes")
    assert_equal %w[TERM TERM], @subject.signals
  end

  {true => [200, "stopped\n"], false => [200, "stopped; running requests were cancelled\n"], nil => ELSEWHERE}.each do |whole, response|
    define_method(:"test_stop_waits_for_the_end_#{whole.inspect}") do
      clients = Array.new(2) { Thread.new { ask("POST", "/stop") } }
      wait_until("both clients") { clients.all? { |client| client.status == "sleep" } }
      assert_equal %w[TERM], @subject.signals
      @control.ended(whole)
      assert_equal [response] * 2, clients.map(&:value)
      assert_equal response, ask("POST", "/stop"), "one that comes later"
    end
  end

  def test_loads_have_their_signals
    {"/reload" => "USR1", "/restart" => "USR2"}.each do |path, name|
      assert_equal [202, "begun\n"], ask("POST", path, "wait=no")
      @subject.result = [:loaded, "all is new"]
      assert_equal [200, "all is new\n"], ask("POST", path)
      assert_equal [name] * 2, @subject.signals.slice!(0..)
    end
  end

  def test_the_result_of_a_load
    @subject.result = [:failed, "no way"]
    assert_equal [[500, "no way\n"]] * 2, [ask("POST", "/reload"), ask("GET", "/last-load")]
    @subject.result = nil
    assert_equal [ELSEWHERE] * 2, [ask("POST", "/restart"), ask("GET", "/last-load")]
  end

  def test_reopen
    assert_equal [200, "the logs have been opened again\n"], ask("POST", "/reopen")
    @subject.failures = ["the log a can't be written", "the log b can't be written"]
    assert_equal [500, "the log a can't be written\nthe log b can't be written\n"], ask("POST", "/reopen")
  end

  def test_all_else_is_answered_as_at_the_health_address
    assert_equal [200, "{\"state\":\"serving\"}\n"], ask("GET", "/stats")
    assert_equal [405, 404], [ask("POST", "/stats"), ask("GET", "/stop")].map(&:first)
  end

  private

  # @return [Array(Integer, String)] status and body
  def ask(method, path, query = "")
    status, _, body = @control.call({"REQUEST_METHOD" => method, "PATH_INFO" => path, "QUERY_STRING" => query})
    [status, body.join]
  end
end
