# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "tempfile"
require "tmpdir"
require_relative "../../script/what_blocks/measurement"
require_relative "../../script/what_blocks/report"
require_relative "../../script/what_blocks/results"
require_relative "../../script/what_blocks/row"

# The script behind docs/what-blocks.md has to tell the kinds of calls apart on any machine, or the document would
# change each time it is made.
class WhatBlocksTest < Minitest::Test
  WAIT = WhatBlocks::Stage::WAIT

  slow "it starts programs"
  def test_a_wait_that_parks
    # real: the measured process waits for the kernel's timer
    assert_equal "parks: kernel_sleep", measured(:waits) { measure(Integer) { sleep WAIT } }
  end

  slow "it starts programs"
  def test_a_wait_that_stops_the_loop
    # real: the measured process waits for the kernel's timer
    words = measured(:waits) { measure(Integer) { Fiber.blocking { sleep WAIT } } }
    assert_equal "BLOCKS, offload helps", words
  end

  slow "it starts programs"
  def test_a_call_that_parks_first_and_stops_the_loop_then
    # real: the measured process waits for the kernel's timer
    words = measured(:waits) { measure(Integer) { sleep(0.01) && Fiber.blocking { sleep WAIT } } }
    assert_equal "BLOCKS, offload helps", words
  end

  slow "it starts programs"
  def test_a_call_that_keeps_the_lock_of_ruby
    words = measured(:computes) do
      measure(String) { "a".crypt("$6$rounds=#{size(4_000_000)}$salt") }
    end
    assert_equal "BLOCKS, offload does not help", words
  end

  def test_a_call_that_is_done_at_once
    assert_equal "inline", measured(:quick) { measure(2) { 1 + 1 } }
  end

  def test_a_wait_inside_another_fiber
    # real: the measured process waits for the kernel's timer
    assert_equal "parks", measured(:waits) { measure(1) { Fiber.new { sleep(WAIT) && 1 }.resume } }
  end

  slow "it starts programs"
  def test_a_wait_begins_with_the_call_however_slow_its_preparation
    # real: the measured process waits for the kernel's timer
    assert_equal "parks: io_read", measured(:waits) { measure("abc", fed("abc").tap { sleep WAIT * 2 }) { |reader| reader.read } }
    # real: the measured process waits for the kernel's timer
    assert_equal "parks: process_wait", measured(:waits) { measure(Integer, lasting.tap { sleep WAIT * 2 }) { |child| Process.wait(child) } }
  end

  # A busy machine is like a call that computes: the thread is awake.
  slow "it starts programs"
  def test_a_loop_that_is_awake_is_not_blocked
    busy = ->(seconds) { Process.clock_gettime(Process::CLOCK_MONOTONIC).then { |start| nil until Process.clock_gettime(Process::CLOCK_MONOTONIC) > start + seconds } }
    assert_equal "parks: io_read", measured(:waits) { measure("abc", fed("abc")) { |reader| reader.read.tap { busy.call(WAIT * 0.9) } } }
  end

  slow "it starts programs"
  def test_a_wait_that_does_not_happen
    assert_equal "returns too early", measured(:waits) { measure(2) { 1 + 1 } }
  end

  slow "it starts programs"
  def test_a_wrong_result
    assert_equal "returns the wrong thing", measured(:quick) { measure(3) { 1 + 1 } }
  end

  def test_an_exception
    assert_equal "raises KeyError", measured(:quick) { measure(3) { {}.fetch(:absent) } }
  end

  slow "it starts programs"
  def test_a_row_that_takes_its_process_along
    assert_equal "crashes", measured(:quick) { measure(nil) { exit!(3) } }
  end

  def test_a_row_whose_preparation_fails
    assert_equal "fails with KeyError", measured(:quick) { {}.fetch(:absent) }
  end

  slow "it starts programs"
  def test_a_look_that_finds_what_is_expected_is_believed
    looks = Tempfile.create
    # real: the measured process waits for the kernel's timer
    asked = row(:waits, "the call") { looks.syswrite(".") && measure(Integer) { sleep(0.01) && Fiber.blocking { sleep WAIT } } }
    words = WhatBlocks::Measurement.new([asked], expected: {"the call" => "BLOCKS, offload helps"}).call.fetch("the call")
    assert_equal "BLOCKS, offload helps", words
    assert_operator looks.size, :<=, 3 # beside other tasks, alone, and offloaded
  ensure
    looks&.close && File.unlink(looks.path)
  end

  def test_results_come_back_as_they_were_stored
    with_results do |results|
      assert_equal "parks: io_wait", results.verdict("a", "poll")
      assert_equal "inline", results.verdict("b", "epoll")
      assert_equal({"a" => "parks: io_wait", "b" => "BLOCKS, offload helps"}, results.expected("poll"))
      assert_equal({["epoll"] => "inline", ["poll"] => "BLOCKS, offload helps"}, results.verdicts("b"))
    end
  end

  def test_differences_are_told_for_the_engine_at_hand
    with_results do |results|
      assert_empty results.differences("epoll", {"a" => "parks: io_wait", "b" => "inline"})
      found = results.differences("poll", {"a" => "BLOCKS", "c" => "inline"})
      assert_equal ["a (Ruby 3.4, poll): documented parks: io_wait, measured BLOCKS",
        "b (Ruby 3.4, poll): documented BLOCKS, offload helps, measured no more",
        "c (Ruby 3.4, poll): documented nowhere, measured inline"], found.values
      assert_equal %w[a c], results.differences("poll", {"a" => "BLOCKS", "c" => "inline"}, except: ["b"]).keys
    end
  end

  def test_the_document_names_engines_only_where_they_differ
    with_results do |results|
      text = WhatBlocks::Report.new([row(:waits, "a"), row(:waits, "b")], [results]).to_s
      assert_includes text, "| `a` |  | parks (`io_wait`) |"
      assert_includes text, "| `b` |  | epoll: inline<br>poll: **BLOCKS** (`offload` helps) |"
      assert_includes text, "- `b`\n"
      refute_includes text, "- `a`\n"
    end
  end

  def test_the_document_is_the_one_its_results_make
    text = WhatBlocks::Report.new(WhatBlocks::Catalogue.rows, WhatBlocks::Results.all).to_s
    assert_equal text, File.read(File.join(NeverBlockTest::ROOT, "docs", "what-blocks.md"))
  end

  private

  def measured(kind, &body)
    asked = row(kind, "the call", &body)
    WhatBlocks::Measurement.new([asked]).call.fetch("the call")
  end

  def row(kind, call, situation = nil, &body)
    WhatBlocks::Row.new(group: "Group", call:, situation:, kind:, body:)
  end

  def with_results
    Dir.mktmpdir do |folder|
      WhatBlocks::Results.new("3.4", folder).tap do |results|
        results.replace("3.4.5", "epoll" => {"a" => "parks: io_wait", "b" => "inline"},
          "poll" => {"a" => "parks: io_wait", "b" => "BLOCKS, offload helps"})
        results.save
      end
      yield WhatBlocks::Results.all(folder).first
    end
  end
end
