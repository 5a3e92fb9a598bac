# frozen_string_literal: true

# engines: every - the transport holds pointers to buffers

require "test_helper"
require "support/served"
require "tempfile"

# Every kind of request while objects are collected and moved at every opportunity.
class ServerGcTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Served

  BIG = ("x" * 200_000).freeze
  YOUNG = 1 # GC.stress: spares old objects, which saves most of the time

  # @return [#call] an app with one path for each way to respond
  def app(file)
    bodies = {
      "/array" => -> { %w[a b] + [BIG] }, "/each" => -> { Enumerator.new { |yielder| 20.times { |n| yielder << "#{n}," } } },
      "/slow" => -> { Enumerator.new { |yielder| 3.times { |n| (yielder << "#{n},") && NB.offload {} } } },
      "/trailers" => -> { %w[a b].each.tap { |body| body.define_singleton_method(:trailers) { NB.offload {} || {+"x-sum" => [+"1", 2]} } } },
      "/stream" => -> { ->(stream) { 3.times { |n| (stream << "#{n},").flush } } },
      "/file" => -> { Object.new.tap { |body| body.define_singleton_method(:to_path) { file } } }
    }
    lambda do |env|
      env["rack.response_finished"] << ->(*) { +"done" }
      case env["PATH_INFO"]
      when "/echo" then [200, {"x-#{env["PATH_INFO"].size}" => 5, "set-cookie" => [+"a=1", :b]}, [env["rack.input"].read]]
      when "/hints" then env["rack.early_hints"].call("link" => [+"a", +"b"]) || [204, {}, []]
      when "/fail" then raise "on purpose"
      when "/hijack" then env["rack.hijack"].call.then { |io| io.write("raw#{io.gets}") && io.close }
      else [200, {"content-type" => +"text/plain"}, bodies.fetch(env["PATH_INFO"]).call]
      end
    end
  end

  # Requests each path once.
  # @return [Array] the responses
  def ask_for_everything
    wire = connect << get("/array") << get("/each") << get("/slow") << get("/stream") << get("/file") << get("/hints", "X-Strange: #{"y" * 300}") <<
      get("/fail") << post("/echo", "in memory") << post("/echo", BIG) << post_chunks("/echo", ["in", " chunks"]) <<
      get("/trailers", "TE: trailers")
    answers = wire.answers(11)
    hijacked = (connect << get("/hijack") + "line\n").rest
    refused = ask("GET / HTTP/1.1\r\nBad\r\n\r\n").status
    [answers.map(&:status), answers.map { |answer| answer.body.hash }, answers[5].interim.map(&:fields), answers[7].all("set-cookie"), answers[10].trailers, hijacked, refused]
  end

  def serve_everything(**)
    @file = Tempfile.new("gc")
    @file.write("z" * 50_000)
    @file.flush
    serve(app(@file.path), **)
  end

  def teardown
    GC.stress = false
    super
    @file&.close!
  end

  def assert_the_same
    expected = ask_for_everything
    assert_equal [[200, 200, 200, 200, 200, 204, 500, 200, 200, 200, 200], [%w[x-sum 1], %w[x-sum 2]], "rawline\n", 400], expected.values_at(0, 4, 5, 6)
    yield
    assert_equal expected, ask_for_everything
  ensure
    GC.stress = false
    log
  end

  %i[buffer stream].each do |mode|
    slow "it collects garbage at each allocation"
    define_method(:"test_a_collection_at_every_allocation_in_#{mode}") do
      serve_everything(request_body: mode)
      assert_the_same { GC.stress = YOUNG }
    end

    slow "it compacts the heap"
    define_method(:"test_objects_that_move_in_#{mode}") do
      skip "this Ruby does not move objects" unless GC.respond_to?(:compact)
      serve_everything(request_body: mode)
      assert_the_same do
        GC.compact
        3.times { ask_for_everything && GC.compact }
      end
    end
  end

  def test_objects_that_move_at_every_collection
    skip "this Ruby does not move objects" unless GC.respond_to?(:verify_compaction_references)
    serve_everything
    assert_the_same do
      assert_output(nil, nil) { GC.verify_compaction_references(expand_heap: true, toward: :empty) }
    end
  end

  def test_requests_under_way_while_objects_move
    skip "this Ruby does not move objects" unless GC.respond_to?(:compact)
    steps = gate
    serve do |env|
      headers = {"x" => "head #{env["PATH_INFO"]}"}
      steps.pop
      [200, headers, Enumerator.new { |yielder| (yielder << env["PATH_INFO"]) && steps.pop && (yielder << env["HTTP_X_NAME"]) }]
    end
    wires = Array.new(10) { |n| connect << get("/#{n}", "X-Name: name #{n}") }
    await_stats(in_flight: 10)
    2.times do
      GC.start
      GC.compact
      10.times { steps << 1 }
      wait_until("the next wait") { steps.empty? }
    end
    wires.each_with_index { |wire, n| assert_equal ["head /#{n}", "/#{n}name #{n}"], wire.answer.then { |answer| [answer["x"], answer.body] } }
  end

  # A thousand requests leave no object behind.
  slow "it collects garbage at each allocation"
  def test_nothing_is_kept
    envs = []
    serve { |env| (envs << env.object_id) && HELLO.call(env) }
    wires = Array.new(5) { connect }
    200.times { wires.each { |wire| (wire << get).answer } }
    alive = wait_until("the collection") do
      GC.start
      count = ObjectSpace.each_object(Hash).count { |hash| hash.key?("neverblock.queue_time") && envs.include?(hash.object_id) }
      (count < 20) ? [count] : nil
    end
    assert_operator alive.first, :<, 20
    await_stats(in_flight: 0)
  end
end
