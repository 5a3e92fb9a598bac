# frozen_string_literal: true

require "test_helper"
require "neverblock"

# Active Support's isolation level, each time in a process that has not loaded it yet. test/integration/patches/isolation_test.rb
# has Active Record.
class IsolationPatchTest < Minitest::Test
  include NeverBlockTest::Helpers

  LEVEL = "ActiveSupport::IsolatedExecutionState.isolation_level"

  def setup
    skip "activesupport is not among the gems here" unless Gem.loaded_specs.key?("activesupport")
  end

  slow "it starts a Ruby with gems"
  def test_it_is_set_where_active_support_is_loaded_inside
    inside, refusal, afterwards, again = program(<<~RUBY)
      NeverBlock.run do
        require "active_support"
        puts #{LEVEL}
        #{LEVEL} = :thread
      rescue NeverBlock::ConfigurationError => error
        puts error.message, #{LEVEL} = :fiber
      end
      puts #{LEVEL} = :thread
      NeverBlock.run { puts #{LEVEL} }
    RUBY
      .then { |lines| lines.values_at(0, 1, 3, 4) }
    assert_equal %w[fiber thread fiber], [inside, afterwards, again]
    assert_match(/\AA loop runs, and .*Remove the line .* to :thread.* write: #{LEVEL} = :fiber\z/o, refusal)
  end

  slow "it starts a Ruby with gems"
  def test_it_is_set_where_active_support_was_loaded_before
    lines = program(<<~RUBY)
      module ActiveSupport; end # a gem may define it without loading it
      NeverBlock.run {}
      require "active_support"
      puts #{LEVEL}
      #{LEVEL} = :thread
      ActiveSupport::IsolatedExecutionState[:name] = "outer"
      NeverBlock.run { p ActiveSupport::IsolatedExecutionState[:name] }
      p ActiveSupport::IsolatedExecutionState[:name]
      puts #{LEVEL}
    RUBY
    assert_equal ["fiber", "nil", '"outer"', "fiber"], lines
  end

  slow "it starts a Ruby with gems"
  def test_state_that_other_threads_use_is_not_broken_up
    refusal, level, value = program(<<~RUBY)
      require "active_support"
      using, done = Queue.new, Queue.new
      other = Thread.new do
        ActiveSupport::IsolatedExecutionState[:name] = "other"
        using << true
        done.pop
        ActiveSupport::IsolatedExecutionState[:name]
      end
      using.pop
      begin
        NeverBlock.run { abort "it ran" }
      rescue NeverBlock::ConfigurationError => error
        puts error.message, #{LEVEL}
      end
      done << true
      puts other.value
      NeverBlock.run {}
      puts #{LEVEL}
    RUBY
    assert_match(/\AOther threads use it, .* write: #{LEVEL} = :fiber\z/o, refusal)
    assert_equal %w[thread other], [level, value]
  end

  private

  def program(code) = assert_ruby("require \"neverblock\"\n#{code}", gems: true).lines(chomp: true)
end
