# frozen_string_literal: true

# engines: every - io_uring's receive is stopped before an app takes the connection

require "test_helper"
require "support/served"

# Connections that an app takes over: rack.hijack, full and partial, and upgrades to other protocols.
class ServerHijackTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Served

  # Responds to /hijack with a connection that is open until a step is pushed for it, and to all else at once.
  # @return [Thread::Queue] of the steps
  def serve_hijacked(**)
    steps = gate
    serve(**) do |env|
      next HELLO.call(env) unless env["PATH_INFO"] == "/hijack"
      env["rack.hijack"].call.then { |io| steps.pop && io.close }
    end
    steps
  end

  # ---- full ----

  def test_the_app_has_the_socket
    seen = nil
    serve do |env|
      io = env["rack.hijack"].call
      seen = [io.class, env["rack.hijack_io"].equal?(io), io.sync, env["rack.hijack?"]]
      io << "raw #{io.gets}"
      io.close
    end
    wire = connect << get << "line\n"
    assert_equal "raw line\n", wire.rest
    assert_equal [TCPSocket, true, true, true], seen
    await_stats(hijacked: 1, connections: 0, in_flight: 0, streams: 0)
  end

  # It fails before the socket is taken, or not at all.
  def test_with_an_env_that_takes_nothing_more
    serve { |env| env.freeze["rack.hijack"].call.then { |io| io.write("raw") && io.close } }
    assert_equal "raw", (connect << get).rest
    await_stats(hijacked: 1, failed: 0)
  end

  def test_over_a_unix_socket
    serve(unix: true) { |env| env["rack.hijack"].call.then { |io| io.write(io.class.name) && io.close } }
    assert_equal "UNIXSocket", (connect << get).rest
  end

  def test_the_answer_of_a_hijacked_request_is_ignored
    [nil, -1, [200, {}, ["no"]], "x"].each do |value|
      serve { |env| env["rack.hijack"].call.then { |io| io.write("raw") && io.close } || value }
      assert_equal "raw", (connect << get).rest
    end
  end

  def test_a_failure_after_a_hijack_is_told_and_changes_nothing
    sockets = gate
    serve do |env|
      sockets << env["rack.hijack"].call
      raise "after"
    end
    wire = connect << get
    assert_match(/RuntimeError: after/, await_log.join)
    io = sockets.pop
    io << "still here"
    io.close
    assert_equal "still here", wire.rest
  end

  # Bytes received with the request, and behind it, belong to the app.
  def test_bytes_that_were_read_already
    serve do |env|
      io = env["rack.hijack"].call
      io << io.read_nonblock(5) << io.readpartial(100) << io.gets << io.read(4)
      io.close
    end
    wire = connect << get + "hello, and more"
    assert_equal "hello, and more", wire.read(15)
    wire << "\nlast"
    assert_equal "\nlast", wire.rest
  end

  def test_bytes_behind_a_body
    serve { |env| (body = env["rack.input"].read) && env["rack.hijack"].call.then { |io| io.write(body, io.gets) && io.close } }
    wire = connect << post("/", "abc") + "def\n"
    assert_equal "abcdef\n", wire.rest
  end

  def test_in_place_of_a_streamed_body
    serve(request_body: :stream) { |env| env["rack.hijack"].call.then { |io| io.write(io.gets) && io.close } }
    wire = connect << request("POST", "/", "Content-Length: 100") + "abcdef\n"
    assert_equal "abcdef\n", wire.rest
  end

  def test_a_pipeline_ends_with_the_hijack
    seen = []
    serve do |env|
      seen << env["PATH_INFO"]
      next HELLO.call(env) unless env["PATH_INFO"] == "/hijack"
      env["rack.hijack"].call.then { |io| io.write(io.read(7)) && io.close }
    end
    wire = connect << get("/1") + get("/hijack") + get("/3")
    assert_equal "hello", wire.answer.body
    assert_equal "GET /3 ", wire.rest
    assert_equal %w[/1 /hijack], seen
  end

  def test_it_lives_on_after_the_request
    sockets = gate
    serve { |env| sockets << env["rack.hijack"].call }
    wire = connect << get
    io = sockets.pop(timeout: 10)
    await_stats(in_flight: 0, streams: 0, connections: 1, taken_over: 1)
    io << "later"
    assert_equal "later", wire.read(5)
    wire << "back"
    assert_equal "back", io.readpartial(10)
    server.stop(timeout: 5)
    io << "after the server"
    io.close
    assert_equal "after the server", wire.rest
  end

  def test_it_takes_no_place_among_the_requests
    steps = serve_hijacked(max_in_flight: 1)
    wires = Array.new(5) { connect << get("/hijack") }
    await_stats(streams: 5, in_flight: 0)
    assert_equal "hello", ask(get).body
    5.times { steps << 1 }
    wires.each { |wire| assert_equal "", wire.rest }
    await_stats(streams: 0)
  end

  def test_it_counts_as_a_request_where_there_are_too_many_streams
    steps = serve_hijacked(max_in_flight: 2, max_streams: 1)
    wires = Array.new(2) { connect << get("/hijack") }
    await_stats(streams: 1, in_flight: 1)
    assert_equal "hello", ask(get).body
    2.times { steps << 1 }
    wires.each { |wire| assert_equal "", wire.rest }
    await_stats(streams: 0, in_flight: 0)
  end

  def test_twice
    errors = gate
    serve do |env|
      env["rack.hijack"].call.close
      env["rack.hijack"].call
    rescue IOError => error
      errors << error.message
    end
    assert_equal "", (connect << get).rest
    assert_match(/the request is over, or its connection was hijacked/, errors.pop(timeout: 10))
  end

  def test_too_late
    errors = []
    serve do |env|
      [200, {}, Enumerator.new { |yielder|
        yielder << "a"
        begin
          env["rack.hijack"].call
        rescue IOError => error
          errors << error.message
        end
      }]
    end
    assert_equal "a", ask(get).body
    assert_match(/too late for rack.hijack/, errors.first)
  end

  def test_after_the_request
    hijack = nil
    serve { |env| (hijack = env["rack.hijack"]) && HELLO.call(env) }
    wire = connect << get
    wire.answer
    wire.close
    await_stats(connections: 0)
    assert_match(/the request is over/, assert_raises(IOError) { hijack.call }.message)
  end

  # ---- partial ----

  def test_partial
    serve do |_env|
      [200, {"content-type" => "text/x", "rack.hijack" => ->(io) { io.write("raw #{io.gets}") && io.close }}, []]
    end
    wire = connect << get
    head = wire.read_head
    assert_equal [200, "text/x", "close", nil], [head.status, head["content-type"], head["connection"], head["rack.hijack"]]
    wire << "line\n"
    assert_equal "raw line\n", wire.rest
  end

  def test_partial_with_a_length
    serve { |_env| [200, {"content-length" => "3", "rack.hijack" => ->(io) { io.write("abc") && io.close }}, []] }
    answer = (connect << get).answer
    assert_equal [:length, "abc"], [answer.framing, answer.body]
  end

  def test_partial_in_http_1_0
    serve { |_env| [200, {"rack.hijack" => ->(io) { io.write("abc") && io.close }}, []] }
    assert_equal "abc", ask(get("/", version: "1.0")).body
  end

  def test_partial_with_bytes_behind_the_request
    serve { |_env| [200, {"rack.hijack" => ->(io) { io.write(io.gets) && io.close }}, []] }
    wire = connect << get + "early\n"
    assert_equal [200, "early\n"], [wire.read_head.status, wire.rest]
  end

  def test_partial_lives_on_after_the_request
    sockets = gate
    serve { |_env| [200, {"rack.hijack" => ->(io) { sockets << io }}, []] }
    wire = connect << get
    assert_equal 200, wire.read_head.status
    io = sockets.pop(timeout: 10)
    await_stats(in_flight: 0, streams: 0)
    io << "later"
    io.close
    assert_equal "later", wire.rest
  end

  def test_partial_that_fails
    socket = nil
    serve { |_env| [200, {"rack.hijack" => ->(io) { (socket = io).write("a") && raise("in hijack") }}, []] }
    wire = connect << get
    assert_equal 200, wire.read_head.status
    assert_equal "a", wire.read(1)
    assert_match(/RuntimeError: in hijack/, await_log.join)
    await_stats(in_flight: 0, streams: 0, connections: 1, taken_over: 1)
    socket.close
    await_stats(connections: 0, taken_over: 0)
  end

  def test_partial_with_a_field_that_is_refused
    serve { |_env| [200, {"a" => "\r\nb: c", "rack.hijack" => ->(io) { io.close }}, []] }
    assert_equal 500, ask(get).status
    assert_match(/control character/, log.join)
  end

  # ---- upgrades ----

  UPGRADE = ["Connection: Upgrade", "Upgrade: echo, other"].freeze

  def test_an_upgrade_by_rack_protocol
    offered = nil
    serve do |env|
      offered = env["rack.protocol"]
      body = lambda do |stream|
        while (line = stream.gets)
          (stream << line.upcase).flush
        end
        stream << "end"
      end
      [200, {"rack.protocol" => "echo", "x" => "y"}, body]
    end
    wire = connect << get("/", *UPGRADE) + "early\n"
    answer = wire.answer
    assert_equal [101, "echo", "upgrade", "y"], [answer.status, answer["upgrade"], answer["connection"], answer["x"]]
    assert_equal %w[echo other], offered
    assert_equal "EARLY\n", wire.read(6)
    wire << "late\n"
    assert_equal "LATE\n", wire.read(5)
    wire.close_write
    assert_equal "end", wire.rest
  end

  def test_an_upgrade_by_101
    serve do |_env|
      [101, {"connection" => "Upgrade", "upgrade" => "echo", "content-length" => "5"}, ->(stream) { stream << stream.readpartial(100) }]
    end
    wire = connect << get("/", *UPGRADE)
    answer = wire.answer
    assert_equal [101, "echo", "upgrade"], [answer.status, answer["upgrade"], answer["connection"]]
    wire << "0\r\n\r\n"
    assert_equal "0\r\n\r\n", wire.rest
  end

  def test_an_upgrade_by_a_partial_hijack
    serve do |_env|
      [101, {"connection" => "upgrade", "upgrade" => "echo", "rack.hijack" => ->(io) { io.write(io.gets) && io.close }}, []]
    end
    wire = connect << get("/", *UPGRADE) << "abc\n"
    assert_equal [101, "upgrade"], wire.read_head.then { |head| [head.status, head["connection"]] }
    assert_equal "abc\n", wire.rest
  end

  def test_nothing_is_offered_without_connection_upgrade
    serve { |env| [200, {}, [env["rack.protocol"].inspect]] }
    assert_equal ["nil"] * 3, [get, get("/", "Upgrade: echo"), get("/", *UPGRADE, version: "1.0")].map { |bytes| ask(bytes).body }
  end

  def test_an_upgrade_that_is_not_taken
    serve { |env| [200, {}, [env["rack.protocol"].inspect]] }
    wire = connect << get("/", *UPGRADE) << get
    assert_equal ['["echo", "other"]', "nil"], wire.answers(2).map(&:body)
  end

  def test_an_upgrade_with_a_refused_name
    serve { |_env| [200, {"rack.protocol" => "a\r\nb: c"}, ->(stream) { stream << "x" }] }
    answer = ask(get("/", *UPGRADE))
    assert_equal [500, nil], [answer.status, answer["b"]]
    assert_match(/control character/, log.join)
  end

  def test_many_upgrades_at_once_beside_requests
    serve(max_in_flight: 2) do |env|
      next HELLO.call(env) unless env["rack.protocol"]
      [200, {"rack.protocol" => "echo"}, ->(stream) { while (line = stream.gets) do stream << line end }]
    end
    wires = Array.new(30) { connect << get("/", *UPGRADE) }
    wires.each { |wire| assert_equal 101, wire.answer.status }
    await_stats(streams: 30, in_flight: 0)
    assert_equal "hello", ask(get).body
    wires.each_with_index { |wire, n| wire << "#{n}\n" }
    wires.each_with_index { |wire, n| assert_equal "#{n}\n", wire.read_to("\n") }
    wires.each(&:close)
    await_stats(streams: 0, connections: 0)
  end

  def test_a_client_that_leaves_an_upgrade
    ended = gate
    serve do |_env|
      [200, {"rack.protocol" => "echo"}, ->(stream) { ended << [stream.read(5), stream.eof?] }]
    end
    wire = connect << get("/", *UPGRADE)
    assert_equal 101, wire.answer.status
    wire.reset
    assert_equal [nil, true], ended.pop(timeout: 10)
    await_stats(streams: 0, connections: 0)
  end
end
