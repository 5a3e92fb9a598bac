# frozen_string_literal: true

require "test_helper"
require "support/loops"
require "neverblock/server"
require "neverblock/server/cluster/template_process"
require "neverblock/server/cluster/launch"

# The supervisor's view of a template: what it is started with, and what it tells of the workers.
class ClusterTemplateProcessTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops

  TemplateProcess = NeverBlock::Server::Cluster::TemplateProcess
  Channel = NeverBlock::Server::Cluster::Channel
  Worker = Struct.new(:slot, :pid, :status)
  Slot = Struct.new(:number)

  # A program that says what it was handed.
  PROGRAM = <<~RUBY
    require "json"
    require "socket"
    handed = JSON.parse(ENV.fetch("NEVERBLOCK_TEMPLATE"))
    text = JSON.generate({event: "loaded", listens: handed["sockets"].map { |number, uri| [Socket.for_fd(number.to_i).local_address.ip_port, uri] }})
    UNIXSocket.for_fd(handed["channel"]).write([text.bytesize, 0].pack("NC"), text)
  RUBY

  def test_it_is_started_with_a_channel_and_the_sockets
    server = Socket.tcp_server_sockets("127.0.0.1", 0).first
    in_loop do
      template = TemplateProcess.start({server => "tcp://127.0.0.1:0"}, NeverBlock::Server::Cluster::Launch.new([RbConfig.ruby, "--disable=gems", "-e", PROGRAM]))
      messages = []
      template.listen { |message| messages << message }
      assert_equal [{event: "loaded", listens: [[server.local_address.ip_port, "tcp://127.0.0.1:0"]]}], messages
      template.status = Process.wait2(template.pid).last.to_s
      assert_equal [true, "template [#{template.pid}]", "template [#{template.pid}] ended (pid #{template.pid} exit 0)"], [template.ended?, template.to_s, template.exit_report]
    end
  ensure
    server&.close
  end

  def test_a_template_knows_that_it_is_one
    env = {"HOME" => "/", "NEVERBLOCK_TEMPLATE" => '{"channel":5,"sockets":{"7":"tcp://a:1"}}'}
    assert_equal({channel: 5, sockets: {7 => "tcp://a:1"}}, TemplateProcess.handed(env))
    assert_equal({"HOME" => "/"}, env)
    assert_nil TemplateProcess.handed(env)
  end

  # Two of one number: the first has ended before the second was forked.
  def test_it_tells_of_its_workers
    template, = pair
    workers = [Worker.new(Slot.new(0)), Worker.new(Slot.new(1)), Worker.new(Slot.new(0))]
    template.workers.concat(workers)
    [[0, 41], [1, 42], [0, 43], [5, 44]].each { |slot, pid| template.tells({event: "forked", slot:, pid:}) }
    assert_equal [41, 42, 43], workers.map(&:pid)
    template.tells({event: "ended", pid: 41, status: "exit 1"})
    template.tells({event: "ended", pid: 99, status: "of another"})
    assert_equal [["exit 1", nil, nil], workers.last(2)], [workers.map(&:status), template.workers]
  end

  def test_a_rehearsal_has_its_failures
    in_loop do
      template, process = pair
      rehearsal = NB.spawn { template.rehearse({control: "/a"}) }
      assert_equal({do: "rehearse", held: {control: "/a"}}, process.receive.first)
      template.rehearsed(["the pid file can't be written"])
      assert_equal ["the pid file can't be written"], rehearsal.value
    end
  end

  def test_it_is_dismissed
    template, process = pair
    template.dismiss
    assert_equal({do: "end"}, process.receive.first)
  end

  private

  def pair = Channel.pair.then { |ours, theirs| [TemplateProcess.new(ours), theirs] }
end
