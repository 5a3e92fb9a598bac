# frozen_string_literal: true

require "test_helper"
require "minitest/mock"
require "support/open_files"
require "support/runs"
require "neverblock/cache"

# A response that is fetched once, and the requests that wait for it.
class CacheFillTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::OpenFiles
  include NeverBlockTest::Runs

  Fill = NeverBlock::Cache::Fill

  def test_all_that_wait_get_the_response_and_follow_its_body
    in_run do |scope|
      fill = new_fill
      bodies = Array.new(5) { scope.spawn { read(fill, fill.join) } }
      all_parked(bodies)
      fill.share(:entry)
      %w[one two three].each do |chunk|
        fill << chunk
        NB.pass
      end
      fill.finish
      assert_equal %w[one two three], fill.chunks
      assert_equal [[:share, "onetwothree"]] * 5, bodies.map(&:value)
      assert_equal [:share, "onetwothree"], read(fill, fill.join), "also those that come later"
    end
  end

  def test_one_alone_has_it_and_the_others_ask_again
    in_run do |scope|
      fill = new_fill(window: 3)
      tasks = Array.new(3) { scope.spawn { read(fill, fill.join) } }
      all_parked(tasks)
      fill.give([200, {}], reason: :private)
      %w[one two three].each { |chunk| fill << chunk } # waits for the reader
      fill.finish
      assert_equal [[:give, "onetwothree"], [:pass, nil], [:pass, nil]], tasks.map(&:value)
    end
  end

  def test_an_error_before_the_response_is_the_first_ones_and_then_all_have_it
    {false => [[:fail, nil], [:retry, nil], [:retry, nil]], true => [[:fail, nil]] * 3}.each do |again, decisions|
      in_run do |scope|
        fill = new_fill(again:)
        tasks = Array.new(3) { scope.spawn { read(fill, fill.join) } }
        all_parked(tasks)
        fill.fail(IOError.new("it failed"))
        assert_equal decisions, tasks.map(&:value)
        assert_equal "it failed", fill.error.message
      end
    end
  end

  def test_a_body_that_fails_is_cut_off_for_all
    in_run do |scope|
      fill = new_fill
      fill.share(:entry)
      fill << "one"
      tasks = Array.new(3) { scope.spawn { assert_raises(Fill::Truncated) { read(fill, fill.join) } } }
      all_parked(tasks)
      fill.fail(IOError.new("the app ended"))
      assert_equal ["the response was cut off: its body failed (the app ended)"], tasks.map { |task| task.value.message }.uniq
      assert_nil fill.chunks
    end
  end

  # 40 bytes in memory, 40 in a file, then 20 at most.
  def test_a_slow_reader_holds_up_nobody_and_is_cut_off_where_the_body_is_not_kept
    in_run do |scope|
      fill = new_fill(memory: 40, file: 40, window: 20)
      fill.share(:entry)
      slow, quick = Array.new(2) { fill.join }
      fast = scope.spawn { read(fill, quick) }
      20.times { fill << "0123456789" }
      assert_operator fill.spool.loose, :<=, 20
      fill.finish
      assert_equal [:share, "0123456789" * 20], fast.value
      seen = +""
      error = assert_raises(Fill::Truncated) { fill.each(slow) { |chunk| seen << chunk } }
      assert_equal "0123456789" * 8, seen, "what is kept, from memory and from the file"
      assert_match(/more than 20 bytes behind/, error.message)
    end
  end

  def test_a_body_that_is_kept_whole_waits_for_no_reader
    in_run do
      fill = new_fill(memory: 40, file: 400)
      fill.share(:entry)
      readers = Array.new(3) { fill.join }
      40.times { fill << "0123456789" }
      fill.finish
      assert_nil fill.chunks, "not all of it is in memory"
      assert fill.spool.whole?
      readers.each { |reader| assert_equal [:share, "0123456789" * 40], read(fill, reader) }
    end
  end

  # As a middleware does that raises after the call.
  def test_a_body_that_nobody_reads_nor_closes
    in_run do
      fill = new_fill(stall: 0.01)
      fill.join
      fill.give([200, {}], reason: :private)
      assert_raises(Fill::Abandoned) { 20.times { fill << "0123456789" } }
    end
  end

  def test_a_fetch_ends_when_nothing_needs_it
    in_run do |scope|
      fill = new_fill
      reader = fill.join
      task = scope.spawn do
        fill.give([200, {}], reason: :private)
        sleep
      end
      fill.task = task
      parked(task)
      fill.leave(reader)
      assert_predicate task.join, :cancelled?
    end
  end

  def test_a_fetch_whose_first_request_has_left_before_its_response
    in_run do
      fill = new_fill
      fill.leave(fill.join)
      fill.give([200, {}], reason: :private)
      assert_raises(Fill::Abandoned) { fill << "x" }
    end
  end

  # It reads that body by itself. It is interrupted when the response is there, and has not run since.
  def test_a_body_that_is_given_to_a_request_and_not_taken_is_closed
    [true, false].each do |taken|
      body = StringIO.new
      fill = new_fill
      reader = fill.join
      fill.give([200, {}, body], reason: :streaming)
      fill.take if taken
      fill.leave(reader)
      assert_equal !taken, body.closed?
    end
  end

  def test_a_shared_response_is_fetched_to_its_end_without_readers
    in_run do
      fill = new_fill
      fill.leave(fill.join)
      fill.share(:entry)
      fill << "x"
      fill.finish
      assert_equal ["x"], fill.chunks
    end
  end

  # A body that goes on after an error.
  def test_a_body_with_a_hole_is_not_complete
    in_run do |scope|
      fill = new_fill
      fill.share(:entry)
      reader = fill.join
      fill << "one"
      fill.spool.stub(:keep, ->(_) { raise IOError, "interrupted" }) { assert_raises(IOError) { fill << "two" } }
      assert_raises(Fill::Abandoned) { fill << "three" }
      error = assert_raises(Fill::Truncated) { fill.finish }
      fill.fail(error)
      assert_raises(Fill::Truncated) { read(fill, reader) }
      assert_nil fill.chunks
    end
  end

  def test_a_body_that_ends_before_a_failure_is_complete
    in_run do
      fill = new_fill
      fill.share(:entry)
      reader = fill.join
      fill << "one"
      fill.finish
      refute fill.fail(IOError.new("close failed"))
      assert_equal [:share, "one"], read(fill, reader)
    end
  end

  # Killed: no exception of which it could tell.
  def test_a_task_that_ends_without_a_word
    in_run do |scope|
      before, after = new_fill, new_fill
      after.share(:entry)
      tasks = [before, after].map { |fill| fill.join.then { |reader| scope.spawn { raised { read(fill, reader) }.class } } }
      all_parked(tasks)
      [before, after].each(&:conclude)
      assert_equal [NilClass, Fill::Truncated], tasks.map(&:value)
      assert_equal :fail, before.decision(Fill::Reader.new(true))
    end
  end

  def test_the_file_of_a_body_is_closed_by_the_last_that_needs_it
    in_run do
      fill = new_fill(memory: 0, file: 100)
      fill.share(:entry)
      readers = Array.new(2) { fill.join }
      before = open_files
      fill << "one"
      file, = *(open_files - before).grep(/neverblock-cache/)
      fill.finish
      fill.conclude
      assert_equal [:share, "one"], read(fill, readers.first)
      assert_includes open_files, file
      assert_equal [:share, "one"], read(fill, readers.last)
      refute_includes open_files, file
      refute_predicate fill, :open?
      assert_equal :again, fill.decision(fill.join), "those that come too late ask the cache again"
    end
  end

  def test_nobody_joins_a_body_whose_beginning_may_be_dropped
    in_run do
      fill = new_fill(memory: 1, file: 0)
      fill.share(:entry)
      first = fill.join
      fill << "one"
      refute_predicate fill, :open?
      late = fill.join
      assert_equal :again, fill.decision(late)
      fill.leave(late)
      fill.finish
      assert_equal [:share, "one"], read(fill, first)
    end
  end

  def test_nobody_joins_a_fetch_for_which_one_has_waited_too_long
    in_run do
      fill = new_fill
      assert_predicate fill, :open?
      fill.decision(fill.join, 0.001)
      refute_predicate fill, :open?
    end
  end

  def test_fetches_without_requests_have_a_limited_number_of_places
    in_run do |scope|
      places = NeverBlock::Semaphore.new(1)
      fills = Array.new(2) { new_fill(places:) }
      tasks = fills.map { |fill| parked(scope.spawn { sleep }).tap { |task| fill.task = task } }
      readers = fills.map(&:join)
      fills.zip(readers) { |fill, reader| fill.leave(reader) }
      assert_predicate tasks.last.join, :cancelled?
      assert_equal [false, true], fills.map(&:abandoned?)
      refute_predicate fills.last, :open?
      again = fills.first.join
      assert_equal 1, places.available, "one that is joined again needs none"
      fills.first.leave(again)
      fills.first.conclude
      assert_equal 1, places.available
      tasks.first.cancel
    end
  end

  def test_a_fetch_for_no_request
    places = NeverBlock::Semaphore.new(1)
    fill = new_fill(places:)
    assert fill.unattended
    refute new_fill(places:).unattended
    refute_predicate fill.join, :leads?
    refute fill.give([200, {}], reason: :private), "nobody has the response"
    assert_equal :pass, fill.decision(fill.join)
    assert_equal 1, places.available
  end

  def test_more_than_may_wait_do_not_join
    fill = new_fill(max_waiting: 2)
    assert_equal [true, false, nil], Array.new(3) { fill.join&.leads? }
  end

  def test_a_decision_that_does_not_come_in_time
    in_run do
      fill = new_fill
      assert_nil fill.decision(fill.join, 0.001)
    end
  end

  def test_by_threads_without_a_loop
    fill = new_fill
    threads = Array.new(3) { Thread.new { read(fill, fill.join) } }
    fill.share(:entry)
    %w[one two].each { |chunk| fill << chunk }
    fill.finish
    assert_equal [[:share, "onetwo"]] * 3, threads.map(&:value)
  end

  private

  def new_fill(memory: 1_000, file: 0, window: 100, max_waiting: 100, **) = Fill.new(memory:, file:, window:, max_waiting:, **)

  def all_parked(tasks) = tasks.each { |task| parked(task) }

  def read(fill, reader)
    decision = fill.decision(reader, 30)
    return [decision, nil] unless %i[share give].include?(decision)
    body = +""
    fill.each(reader) { |chunk| body << chunk }
    [decision, body]
  ensure
    fill.leave(reader)
  end
end
