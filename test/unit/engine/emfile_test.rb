# frozen_string_literal: true

# engines: every - each back end opens descriptors of its own

require "test_helper"
require "neverblock"

class EmfileTest < Minitest::Test
  include NeverBlockTest::Helpers

  def test_running_out_of_descriptors_names_the_remedy
    output = assert_ruby(<<~RUBY)
      require "neverblock"
      NeverBlock.run {}
      Process.setrlimit(:NOFILE, 40)
      begin
        NeverBlock.run { Array.new(50) { IO.pipe } }
      rescue Errno::EMFILE => error
        puts error.full_message(highlight: false)
      end
    RUBY
    assert_includes output, "Too many open files"
    assert_includes output, "this process may have 40 descriptors open (ulimit -n"
    assert_includes output, "FiberPool"
  end

  def test_the_remedy_at_the_hard_limit_needs_root
    output = assert_ruby(<<~RUBY)
      require "neverblock"
      Process.setrlimit(:NOFILE, 40, 60)
      puts NeverBlock::ResourceLimitError.descriptors
      Process.setrlimit(:NOFILE, 40, 40)
      puts NeverBlock::ResourceLimitError.descriptors
    RUBY
    below, there = output.lines
    assert_match(/have 40 descriptors .*Process\.setrlimit\(:NOFILE, 60\).*ulimit -n 60$/, below)
    assert_match(/have 40 descriptors .*root raise the hard limit: limits\.conf, or LimitNOFILE=/, there)
    refute_includes there, "setrlimit"
  end

  def test_a_loop_without_a_descriptor_names_the_remedy
    output = assert_ruby(<<~RUBY)
      require "neverblock"
      Process.setrlimit(:NOFILE, 40)
      files = []
      begin
        loop { files << File.open(IO::NULL) }
      rescue Errno::EMFILE
        begin
          NeverBlock.run {}
        rescue NeverBlock::ResourceLimitError => error
          puts error.message
        end
      end
    RUBY
    assert_includes output, "40 descriptors"
  end

  # A transfer on another thread needs a descriptor. If there is none, the transfer runs in place, as in plain Ruby.
  def test_open_files_continue_to_work
    output = assert_ruby(<<~RUBY)
      require "neverblock"
      require "tempfile"
      NeverBlock.run do
        file = Tempfile.create.binmode
        Process.setrlimit(:NOFILE, 40)
        taken = []
        begin
          loop { taken << File.open(IO::NULL) }
        rescue Errno::EMFILE
          content = Random.bytes(3_000_000)
          file.write(content)
          file.pwrite(content[0, 100_000], 1)
          p file.fsync, file.fdatasync
          file.advise(:dontneed)
          p file.pread(100_000, 2_000_000) == content[2_000_000, 100_000]
          file.advise(:dontneed)
          file.rewind
          p file.read == content[0] + content[0, 100_000] + content[100_001..]
        end
        File.unlink(file.path)
      end
    RUBY
    assert_equal "0\n0\ntrue\ntrue\n", output
  end
end
