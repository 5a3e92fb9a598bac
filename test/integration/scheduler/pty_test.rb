# frozen_string_literal: true

# engines: every - for io_uring a terminal isn't a file

require "test_helper"
require_relative "../../support/loops"
require "fcntl"
require "io/console"
require "pty"

# Terminals are shared with other processes, so their descriptors keep their flags, and readiness doesn't tell how many
# bytes a terminal takes.
class PtyTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops

  def test_both_ends_in_one_loop
    in_loop do
      master, slave = PTY.open
      slave.raw!
      size = 300_000
      writer = NB.spawn { slave.write("x" * size) }
      assert_equal size, drain(master, size)
      writer.join
      writer = NB.spawn { master.write("y" * size) }
      assert_equal size, drain(slave, size)
      writer.join
      [master, slave].each(&:close)
    end
  end

  def test_a_terminal_without_a_reader_holds_only_its_writer
    in_loop do
      master, slave = PTY.open
      writer = NB.spawn { slave.write("x" * 1_000_000) }
      ticks = 0
      ticker = NB.spawn { loop { nap and ticks += 1 } }
      pass_until("ticks") { ticks > 20 }
      assert_predicate writer, :alive?
      ticker.cancel
      writer.cancel
      assert_kind_of NeverBlock::Cancelled, outcome(writer)
      master.close # releases the thread that still writes
      slave.close
    end
  end

  # Also after it has been emptied: such a read returns no byte.
  def test_a_terminal_without_a_least_number_of_bytes_answers_while_it_is_empty
    in_loop do
      PTY.open do |master, slave|
        2.times do
          master.write("line\n")
          assert_equal "line\n", slave.gets
          [0, 0.1].each { |time| assert_nil slave.raw(min: 0, time:) { slave.getc } }
        end
      end
    end
  end

  slow "it starts a program"
  def test_a_spawned_program
    in_loop do
      PTY.spawn(RbConfig.ruby, "-e", 'puts "name?"; print "hello ", gets') do |output, input, pid|
        assert_equal "name?", output.gets.chomp
        input.puts "you"
        assert_equal "you", output.gets.chomp # the terminal's echo
        assert_equal "hello you", output.gets.chomp
        Process.wait(pid)
      end
    end
  end

  def test_flags_of_terminals_stay_as_they_were
    in_loop do
      master, slave = PTY.open
      before = [master, slave].map { |io| io.fcntl(Fcntl::F_GETFL) }
      reader = NB.spawn { slave.gets }
      NB.pass
      master.puts "line"
      assert_equal "line\n", reader.value
      slave.puts "answer"
      master.gets
      assert_equal before, [master, slave].map { |io| io.fcntl(Fcntl::F_GETFL) }
      assert(before.all? { |flags| flags & File::NONBLOCK == 0 })
      [master, slave].each(&:close)
    end
  end

  private

  def drain(io, size)
    got = 0
    got += io.readpartial(65_536).bytesize while got < size
    got
  end
end
