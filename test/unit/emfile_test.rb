# frozen_string_literal: true

require "test_helper"
require "neverblock"

class EmfileTest < Minitest::Test
  include NeverBlockTest::Helpers

  def test_a_run_out_of_descriptors_says_what_to_do
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

  def test_where_the_limit_is_as_high_as_it_goes_only_root_can_raise_it
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

  def test_a_loop_that_gets_no_descriptor_says_so
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
end
