# frozen_string_literal: true

require "test_helper"
require "neverblock/server/restart_file"
require "neverblock/testing"
require "fileutils"
require "tmpdir"

# When a touched file asks for a reload. With a server: test/programs/restart_file_test.rb.
class ServerRestartFileTest < Minitest::Test
  NOW = Time.at(1_000_000)

  def setup
    @folder = Dir.mktmpdir("nb")
  end

  def teardown = FileUtils.rm_rf(@folder)

  def test_each_touch_is_told_once
    assert_equal [false, true, false, true, false], told(-> {}, -> { touch(1) }, -> {}, -> { touch(2) }, -> {})
  end

  def test_a_touch_from_before_is_not_told
    touch(-5)
    assert_equal [false, true], told(-> {}, -> { touch(5) })
  end

  # A file that was unpacked from an archive of another machine, for example.
  def test_a_time_in_the_future_from_before_is_not_told
    touch(3600)
    assert_equal [false, false, true], told(-> {}, -> { touch(5) }, -> { touch(3601) })
  end

  def test_a_reload_that_could_not_begin_is_told_again
    assert_equal [true, true, true, false], told(-> { touch(1) }, -> {}, -> {}, -> {}, begun: [nil, false, true])
  end

  def test_a_file_that_is_removed
    touch(-1)
    assert_equal [false, true], told(-> { File.unlink(path) }, -> { touch(1) })
  end

  def test_without_a_path_nothing_is_watched
    assert_nil NeverBlock::Server::RestartFile.new(nil, @folder).watch { flunk }
  end

  private

  def path = "#{@folder}/restart.txt"

  def touch(seconds)
    FileUtils.touch(path, mtime: NOW + seconds)
  end

  # @param steps [Array<Proc>] what happens in each second
  # @param begun [Array<Boolean, nil>] what the block returns, each time; then true
  # @return [Array<Boolean>] whether the block was called after each step
  def told(*steps, begun: [])
    NeverBlock::Testing::VirtualClock.run(exit: :cancel) do |clock, scope|
      called = nil
      file = NeverBlock::Server::RestartFile.new("restart.txt", @folder, now: NOW)
      scope.spawn { file.watch { (called = true) && (begun.empty? || begun.shift) } }
      clock.settle
      steps.map do |step|
        called = false
        step.call
        clock.advance(1)
        called
      end
    end
  end
end
