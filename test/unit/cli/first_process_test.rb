# frozen_string_literal: true

require "test_helper"
require "neverblock/cli"

# The parent that process 1 of a container becomes. In a namespace of its own: test/programs/first_process_test.rb.
class CLIFirstProcessTest < Minitest::Test
  include NeverBlockTest::Helpers

  def test_any_other_process_goes_on_by_itself
    assert_nil NeverBlock::CLI::FirstProcess.take_over
  end

  def test_it_ends_as_the_server_does
    {"exit!(7)" => 7, "Process.kill(:KILL, Process.pid); sleep" => 128 + 9}.each do |server, status|
      ruby = run_ruby("require 'neverblock/cli'; NeverBlock::CLI::FirstProcess.new.call; #{server}")
      assert_equal status, ruby.status.exitstatus, server
    end
  end

  def test_it_reaps_what_it_inherits
    assert_equal "[]\n", assert_ruby(<<~RUBY)
      require "neverblock/cli"
      fork { exit!(0) } # a child that is not the server
      parent = Process.pid
      NeverBlock::CLI::FirstProcess.new.call
      nil while (left = `ps --no-headers -o pid,stat --ppid \#{parent}`.lines.grep(/Z/)).any?
      p left
      $stdout.flush
      exit!(0)
    RUBY
  end

  def test_signals_are_passed_on_and_handlers_of_before_are_the_server_s
    assert_equal "HUP\nTERM\n", assert_ruby(<<~RUBY)
      require "neverblock/cli"
      $stdout.sync = true
      reader, writer = IO.pipe
      trap("HUP") { writer.puts "HUP" }
      parent = Process.pid
      NeverBlock::CLI::FirstProcess.new.call
      trap("TERM") { writer.puts "TERM" }
      %w[HUP TERM].each do |name|
        Process.kill(name, parent)
        puts reader.gets
      end
      exit!(0)
    RUBY
  end
end
