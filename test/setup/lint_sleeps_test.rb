# frozen_string_literal: true

require "test_helper"
require "fileutils"
require "tmpdir"
require_relative "../../rakelib/sleeps"

# `rake lint:sleeps` counts the tests that sleep.
class LintSleepsTest < Minitest::Test
  def test_a_sleep_with_an_argument_is_found_with_its_place
    assert_equal ["test/unit/a_test.rb:2: sleep 0.01 until done?"], findings("test/unit/a_test.rb" => "# sleep 1\nsleep 0.01 until done?\n")
  end

  def test_calls_that_pass_no_time
    ["sleep", "sleep 0", "sleep(0)", "NB.spawn { sleep }", "def test_sleep = asleep(1)", "scheduler.kernel_sleep(0.01)", "[:sleep, 1]"].each do |code|
      assert_empty findings("test/unit/a_test.rb" => "#{code}\n"), code
    end
  end

  def test_all_ways_to_write_it
    ["sleep 1", "sleep(0.5)", "sleep TIME", "Kernel.sleep(time)", "NB.spawn { sleep 0.001 and :value }"].each do |code|
      assert_equal 1, findings("test/unit/a_test.rb" => "#{code}\n").size, code
    end
  end

  def test_programs_are_read
    program = "run_ruby(<<~'RUBY')\n  # sleep 1\n  NB.run { sleep 0.1 }\n  sleep\nRUBY\n"
    assert_equal ["test/unit/a_test.rb:3: NB.run { sleep 0.1 }"], findings("test/unit/a_test.rb" => program)
    assert_equal 1, findings("test/unit/a_test.rb" => 'assert_ruby("NB.run { sleep 0.1 }")').size
    assert_equal 2, findings("test/unit/a_test.rb" => "text = <<~RUBY\n  sleep \#{sleep(1)}\n  sleep 2\nRUBY\n").size
    assert_empty findings("test/unit/a_test.rb" => "spawn('exec sleep 1000')\nassert_equal 'I sleep well', words\n")
  end

  def test_a_comment_that_names_what_is_waited_for
    assert_empty findings("test/unit/a_test.rb" => "sleep 0.01 # real: the kernel's timer of SO_LINGER\n# real: the database\nsleep 1\n")
    assert_equal 2, findings("test/unit/a_test.rb" => "sleep 0.01 # real:\n# the database\nsleep 1\n").size
  end

  def test_a_virtual_clock_takes_no_time
    files = {"test/support/virtual_time.rb" => "module NeverBlockTest\n  module VirtualTime\n    def setup = VirtualClock.start\n  end\nend\n",
             "test/support/timed.rb" => "module Timed\n  include NeverBlockTest::VirtualTime\nend\n"}
    assert_empty findings(files.merge("test/unit/a_test.rb" => "class A\n  include Timed\n  def test_a = sleep(1)\nend\n"))
    assert_empty findings("test/unit/a_test.rb" => "VirtualClock.run { sleep 1 }\n")
    assert_empty findings("test/unit/a_test.rb" => "NeverBlockTest::VirtualTime.during { NB.run { sleep 1 } }\n")
    assert_equal 1, findings(files.merge("test/unit/a_test.rb" => "class A\n  include Other\n  def test_a = sleep(1)\nend\n")).size
  end

  def test_files_that_measure_real_time
    assert_empty findings("test/unit/a_test.rb" => "# serial: it measures processor time\n\nsleep 1\n")
  end

  def test_counts_of_each_folder
    files = {"test/unit/a_test.rb" => "sleep 1\n", "test/unit/b/c_test.rb" => "sleep 1\nsleep 2\n", "test/fuzz/a.rb" => "sleep 1\n"}
    assert_equal({"test/unit" => 3, "test/integration" => 0, "test/programs" => 0, "test/setup" => 0, "test/support" => 0}, lint(files, &:counts))
  end

  private

  def findings(files) = lint(files, &:findings)

  def lint(files)
    Dir.mktmpdir do |root|
      files.each do |path, text|
        FileUtils.mkdir_p(File.dirname(File.join(root, path)))
        File.write(File.join(root, path), text)
      end
      yield Lint::Sleeps.new(root)
    end
  end
end
