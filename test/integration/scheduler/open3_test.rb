# frozen_string_literal: true

# engines: every - processes, pipes and threads together

require "test_helper"
require_relative "../../support/loops"
require "tmpdir"

# Open3 in a loop: its threads, pipes and process waits.
class Open3Test < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops

  def test_capture
    in_loop do
      out, err, status = Open3.capture3("cat; echo oops >&2; exit 3", stdin_data: "in" * 100_000)
      assert_equal ["in" * 100_000, "oops\n", 3], [out, err, status.exitstatus]
      assert_equal ["both\n", true], Open3.capture2e("echo both >&2").then { |text, result| [text, result.success?] }
    end
  end

  slow "many processes"
  def test_many_at_once_beside_a_ticker
    in_loop do
      Dir.mktmpdir do |folder|
        # each child ends when the files of all children, and ten ticks, exist
        ticker = NB.spawn { 10.times { |i| nap(0.002) and File.write("#{folder}/tick#{i}", "") } }
        wait = "until [ $(ls #{folder} | wc -l) -ge 20 ]; do sleep 0.02; done"
        outputs = NB.concurrently(10.times) { |i| Open3.capture2("echo > #{folder}/#{i}; #{wait}; echo #{i}").first.to_i }
        assert_equal [*0..9], outputs
        ticker.join
      end
    end
  end

  def test_a_conversation
    in_loop do
      Open3.popen3("while read line; do echo \"got $line\"; done") do |input, output, _errors, thread|
        3.times do |i|
          input.puts(i)
          assert_equal "got #{i}\n", output.gets
        end
        input.close
        assert_predicate thread.value, :success?
      end
    end
  end

  def test_pipelines
    in_loop do
      Open3.pipeline_r("printf 'a\\nb\\nc\\n'", "wc -l") do |output, threads|
        assert_equal 3, output.read.to_i
        assert threads.all? { |thread| thread.value.success? }
      end
    end
  end

  slow "a process that is slow to end"
  def test_a_cancelled_one
    in_loop do
      task = NB.spawn { Open3.popen2("sleep 1") { |_input, output| output.read } }
      pass_until("the start") { task.waits_for && task.state == :running }
      task.cancel
      assert_kind_of NeverBlock::Cancelled, outcome(task)
    end
  end
end
