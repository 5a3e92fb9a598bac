# frozen_string_literal: true

require "test_helper"
require "support/served"

# Apps that fork, run programs, or exit in a child: the connection is the parent's alone to answer.
class ServerForkTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Served

  # A child that comes back from fork returns from the app as well.
  def test_a_child_that_returns_from_the_app_answers_nobody
    serve do
      child = fork
      next [200, {}, ["child"]] unless child
      Process.wait(child)
      [200, {}, ["parent of a child with status #{$?.exitstatus}"]]
    end
    wire = connect << get("/", "Connection: close")
    assert_equal "parent of a child with status 0", wire.answer.body
    assert wire.ended?
  end

  def test_a_child_that_exits_has_its_status
    serve do
      child = fork || exit(3)
      Process.wait(child)
      [200, {}, [$?.exitstatus.to_s]]
    end
    assert_equal "3", ask(get).body
  end

  def test_a_block_of_its_own_and_programs
    serve do |env|
      next [200, {}, [`echo hello`]] if env["PATH_INFO"] == "/program"
      Process.wait(fork { exit!(4) })
      [200, {}, [$?.exitstatus.to_s]]
    end
    assert_equal "4", ask(get).body
    assert_equal "hello\n", ask(get("/program")).body
  end
end
