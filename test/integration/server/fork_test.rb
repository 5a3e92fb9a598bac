# frozen_string_literal: true

# engines: every - a child inherits the ring and the connections

require "test_helper"
require "support/served"
require "neverblock/cache"

# Apps that fork, run programs, or exit in a child: only the parent answers on the connection.
class ServerForkTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Served

  # A child that comes back from fork returns from the app as well.
  def test_a_child_that_returns_from_the_app_sends_no_response
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

  %i[each trailers].each do |method|
    define_method(:"test_a_child_that_returns_from_a_body_s_#{method}_sends_nothing") do
      body = Object.new
      who = nil
      forks = -> { (child = fork) ? Process.wait(child) && who = "parent" : who = "child" }
      body.define_singleton_method(:each) { |&block| block.call("a").then { forks.call if method == :each } }
      body.define_singleton_method(:trailers) { forks.call.then { {"from" => who} } if method == :trailers }
      serve { [200, {}, body] }
      wire = connect << get("/", "TE: trailers", "Connection: close")
      answer = wire.answer
      assert_equal ["a", (method == :each) ? [] : [%w[from parent]]], [answer.body, answer.trailers]
      assert wire.ended?
    end
  end

  # In a header's each, or to_ary.
  %i[each to_ary].each do |method|
    define_method(:"test_a_child_that_returns_from_#{method}_before_the_head_sends_nothing") do
      who = nil
      forks = ->(value) { (child = fork) ? Process.wait(child) && who = "parent" : who = "child" and value }
      headers, body = Object.new, Object.new
      headers.define_singleton_method(:each) { |&block| (method == :each) ? forks.call(block.call("a", "b")) : block.call("a", "b") }
      body.define_singleton_method(:to_ary) { (method == :to_ary) ? forks.call(["x"]) : ["x"] }
      body.define_singleton_method(:each) { |&block| block.call("x") }
      serve { [200, headers, body] }
      wire = connect << get("/", "Connection: close")
      assert_equal ["b", "x"], wire.answer.then { |answer| [answer["a"], answer.body] }
      assert wire.ended?
      assert_equal "parent", who
    end
  end

  def test_a_child_that_returns_from_call_sends_nothing
    statuses = Thread::Queue.new
    body = lambda do |stream|
      stream.write("a")
      child = fork or next
      Process.wait(child)
      statuses << $?.exitstatus
      stream.write("b")
    end
    serve { [200, {}, body] }
    wire = connect << get("/", "Connection: close")
    assert_equal "ab", wire.answer.body
    assert wire.ended?
    assert_equal 0, statuses.pop(timeout: 20)
  end

  def test_a_child_can_not_write_into_its_parent_s_response
    said, say = IO.pipe
    try = ->(&write) { write.call || "written" rescue say.puts("#{$!.class}: #{$!.message}") } # standard:disable Style/RescueModifier -- the child tells it
    body = lambda do |stream|
      stream.write("a")
      Process.wait(fork { try.call { stream.write("child") } })
      stream.write("b")
    end
    serve do |env|
      Process.wait(fork { try.call { env["rack.early_hints"].call("link" => "</a>") } })
      [200, {}, body]
    end
    answer = ask(get("/", "Connection: close"))
    assert_equal [[], "ab"], [answer.interim, answer.body]
    2.times { assert_equal "IOError: the request belongs to the process that has forked this one, which responds to it\n", said.gets }
  ensure
    [said, say].each(&:close)
  end

  # The loop ends in the child, and what follows it in the server's code.
  def test_a_child_that_returns_from_the_app_leaves_the_socket_s_file
    serve(unix: true) do
      next [200, {}, ["child"]] unless (child = fork)
      Process.wait(child)
      [200, {}, ["parent"]]
    end
    2.times { assert_equal "parent", ask(get).body }
  end

  # Its response is nobody's: other processes would read it from the store.
  def test_a_child_that_returns_from_a_fetch_stores_nothing
    Dir.mktmpdir("nb") do |folder|
      stored, told = IO.pipe
      child = nil
      app = lambda do |_env|
        child = fork
        stored.wait_readable(10) unless child
        [200, {"cache-control" => "max-age=60"}, [child ? "parent" : "child"]]
      end
      store = -> { NeverBlock::Cache::FileStore.new(folder, bytes: "1 MiB") }
      serve(NeverBlock::Cache.new(app, store: store.call))
      2.times { assert_equal "parent", ask(get).body }
      told << "1"
      Process.wait(child)
      serve(NeverBlock::Cache.new(app, store: store.call))
      assert_equal "parent", ask(get).body
    ensure
      [stored, told].each(&:close)
    end
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

  def test_a_child_that_lives_on_when_an_answer_breaks_off
    children = []
    serve { |_env| [200, {}, ->(stream) { (stream << "a").flush && (children << fork { sleep }) && raise("no") }] }
    wire = connect << get("/", version: "1.0")
    assert_predicate wire, :reset?
    assert_match(/RuntimeError: no/, await_log.join)
  ensure
    children.each { |child| end_child(child) }
  end

  # It inherits every connection, which must neither keep them open nor the loop busy.
  def test_a_child_that_lives_on
    children = []
    serve do |env|
      case env["PATH_INFO"]
      when "/fork" then children << fork { sleep }
      when "/looks" then next [200, {}, [NeverBlock::Scheduler.current.statistics[:polls].to_s]]
      end
      HELLO.call(env)
    end
    idle = connect << get
    idle.answer
    forking = connect << get("/fork", "Connection: close")
    assert_equal 200, forking.answer.status
    assert_predicate forking, :ended?
    idle.close_write # the child has our end too
    closing = connect << get("/", "Connection: close")
    closing.answer
    assert_predicate closing, :ended?
    await_stats(connections: 0)
    before = Integer(ask(get("/looks")).body)
    sleep 0.1 # real: descriptors that only the child holds now may wake the loop
    assert_operator Integer(ask(get("/looks")).body) - before, :<, 100, "the loop spins"
    assert_equal 200, ask(get).status
  ensure
    children.each { |child| end_child(child) }
  end

  private

  def end_child(child)
    Process.kill(:KILL, child)
    Process.wait(child)
  end
end
