# frozen_string_literal: true

require "test_helper"
require "support/runs"

# The gem async: its methods inside our loops, in a program of their own.
class AsyncRemedyTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs

  # Both messages are in docs/from-async.md.
  REFUSED = {
    "Async { }" => "Async { 1 }",
    "Sync { }" => "Sync { 1 }",
    "Async::Reactor.run" => "Async::Reactor.run { 1 }",
    "Async::Task#run" => "Async::Task.new { 1 }.run",
    "Async::Task.yield" => "Async::Task.yield",
    "Async::Notification#signal" => "one = Async::Notification.new; NB.spawn { one.signal(1) }; one.wait",
    "Async::Idler#wait" => "Async::Idler.new.wait",
    "Barrier { }" => "Barrier { |barrier| barrier.async { 1 } }"
  }.freeze

  WORKS = {
    "Async::Queue" => "queue = Async::Queue.new; NB.spawn { queue << 1 }; queue.pop",
    "Async::LimitedQueue" => "queue = Async::LimitedQueue.new(1); NB.spawn { 2.times { |n| queue << n } }; 2.times.map { queue.pop }.last",
    "Async::Condition" => "condition = Async::Condition.new; NB.spawn { condition.signal(1) }; condition.wait",
    "Async::Variable" => "variable = Async::Variable.new; NB.spawn { variable.value = 1 }; variable.value",
    "Async::Semaphore#acquire" => "Async::Semaphore.new(1).acquire { 1 }",
    "Async on a thread" => "Thread.new { Async { |task| task.async { sleep(0.001) && 1 }.wait }.wait }.value",
    "Sync on a thread" => "Thread.new { Sync { sleep(0.001) && 1 } }.value"
  }.freeze

  def setup
    skip "the gem async is left out on preview Rubies" unless Gem.loaded_specs.key?("async")
  end

  REFUSED.each_key do |word|
    define_method(:"test_#{word}_names_the_remedy") do
      assert_match(/\ANeverBlock::UnsupportedError: .*NeverBlock\.spawn.*outside of NeverBlock\.run.*from-async/, outcomes.fetch(word))
    end
  end

  WORKS.each_key do |word|
    define_method(:"test_#{word}_works") { assert_equal "1", outcomes.fetch(word) }
  end

  def test_run_inside_async
    assert_equal "1", outcomes.fetch("run inside Async")
  end

  def test_respond_to_is_false_for_these_methods
    scheduler = standalone { |one| one }
    %i[add_child resume transfer with_timeout push].each { |name| refute_respond_to scheduler, name }
    assert_raises(NoMethodError) { scheduler.no_such_method }
  end

  private

  # @return [Hash{String=>String}] for each method, its value or error
  def outcomes
    @@outcomes ||= begin
      words = {**REFUSED, **WORKS}.map { |word, code| "told(#{word.inspect}) { NeverBlock.run { #{code} } }" }
      outcome = run_ruby(<<~RUBY, gems: true)
        require "async"
        require "async/barrier"
        require "async/idler"
        require "async/limited_queue"
        require "async/notification"
        require "async/queue"
        require "async/semaphore"
        require "async/variable"
        require "kernel/barrier"
        require "neverblock"
        def told(word)
          puts [word, yield.inspect].join("\t")
        rescue => error
          puts [word, "\#{error.class}: \#{error.message}"].join("\t")
        end
        #{words.join("\n")}
        told("run inside Async") { Async { NeverBlock.run { NB.pass || 1 } }.wait }
      RUBY
      assert_predicate outcome.status, :success?, outcome.stderr
      outcome.stdout.lines(chomp: true).to_h { |line| line.split("\t") }
    end
  end
end
