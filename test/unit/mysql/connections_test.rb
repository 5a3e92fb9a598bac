# frozen_string_literal: true

require "test_helper"
require_relative "../../support/loops"

# The first statement's connection, from which the catalogue is read, for all that come meanwhile: without a server.
class MySQLConnectionsTest < Minitest::Test
  include NeverBlockTest::Loops

  def setup
    skip "trilogy is not among the gems here" unless Gem.loaded_specs.key?("trilogy")
    require "neverblock/mysql"
    @go = Thread::Queue.new
    @asked = 0
  end

  # Each would wait for its own connect_timeout, one after the other.
  def test_those_that_come_meanwhile_get_the_error_of_the_first
    connections = connections { (@asked += 1) && @go.pop && raise("no server") }
    in_loop do
      tasks = Array.new(3) { NB.spawn { connections.ready } }
      NB.pass until @go.num_waiting == 1
      @go << true
      assert_equal [["no server"] * 3, 1], [tasks.map { |task| assert_raises(RuntimeError) { task.value }.message }, @asked]
    end
  end

  # The fiber that would have ended the wait is the parent's.
  def test_a_child_that_is_forked_meanwhile_begins_by_itself
    parent = Process.pid
    connections = connections { (Process.pid == parent) ? @go.pop && raise("of the parent") : raise("of the child") }
    in_loop do
      first = NB.spawn { connections.ready }
      NB.pass until @go.num_waiting == 1
      reader, writer = IO.pipe
      child = fork do
        NB.timeout(NeverBlockTest::LIMIT) { connections.ready }
      rescue => error
        writer.write(error.message)
      ensure
        writer.close
        exit!(0)
      end
      writer.close
      assert_equal "of the child", reader.read
      Process.wait(child)
      @go << true
      assert_raises(RuntimeError) { first.value }
    ensure
      reader&.close
    end
  end

  private

  def connections(&connect) = NeverBlock::MySQL::Connections.new(connect, [], connections: 2, timeout: 5, max_waiting: 100)
end
