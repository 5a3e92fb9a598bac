# frozen_string_literal: true

# engines: every - io_uring sends, the others write when the socket is writable

require "test_helper"
require "support/open_files"
require "support/served_in_time"
require "tempfile"

# The kinds of bodies that an app may return, their framing, and that they are closed in any case.
class ServerBodiesTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::OpenFiles
  include NeverBlockTest::ServedInTime

  # A body of any kind that counts its closes.
  class Body
    attr_reader :closed

    def initialize(**methods)
      @closed = 0
      methods.each { |name, code| define_singleton_method(name, &code) }
    end

    def close = @closed += 1
  end

  def teardown
    @files&.each(&:close!)
    super
  end

  # ---- kinds ----

  # name => [body, framing, content]
  {
    "an Array" => [%w[ab c], :length, "abc"],
    "an empty Array" => [[], :length, ""],
    "an Array of empty parts" => [["", "a", ""], :length, "a"],
    "an Array with a large part" => [["a", "b" * 1_000_000, "c"], :length, "a#{"b" * 1_000_000}c"],
    "an Array of ten thousand parts" => [Array.new(10_000) { |n| n.to_s }, :length, Array.new(10_000) { |n| n.to_s }.join],
    "a subclass of Array" => [Class.new(Array).new(%w[a b]), :length, "ab"],
    "each" => [Body.new(each: ->(&block) { %w[a b].each(&block) }), :chunked, "ab"],
    "each without a part" => [Body.new(each: ->(&_block) {}), :chunked, ""],
    "each with empty parts" => [Body.new(each: ->(&block) { ["", "a", "", "b", ""].each(&block) }), :chunked, "ab"],
    "each with large parts" => [Body.new(each: ->(&block) { 5.times { block.call("x" * 300_000) } }), :chunked, "x" * 1_500_000],
    "each with many parts" => [Body.new(each: ->(&block) { 30_000.times { |n| block.call(n.to_s) } }), :chunked, Array.new(30_000) { |n| n.to_s }.join],
    "to_ary" => [Body.new(to_ary: -> { %w[a b] }, each: ->(&_block) { raise "not this" }), :length, "ab"],
    "to_ary that gives nil" => [Body.new(to_ary: -> {}, each: ->(&block) { block.call("a") }), :chunked, "a"],
    "an Enumerator" => [Enumerator.new { |yielder| yielder << "a" << "b" }, :chunked, "ab"],
    "a lazy Enumerator" => [(1..3).lazy.map(&:to_s), :chunked, "123"],
    "an Enumerator that is pulled" => [-> { Enumerator.new { |yielder| yielder << "a" << "b" }.then { |from| Enumerator.new { |to| loop { to << from.next } } } }, :chunked, "ab"],
    "a Range" => [("a".."c"), :chunked, "abc"],
    "a StringIO" => [-> { StringIO.new("a\nb\n") }, :chunked, "a\nb\n"],
    "a stream" => [->(stream) { stream << "a" << "b" }, :chunked, "ab"],
    "each rather than call" => [Body.new(each: ->(&block) { block.call("a") }, call: ->(_stream) { raise "not this" }), :chunked, "a"],
    "frozen parts" => [%w[a b].freeze, :length, "ab"],
    "parts of several encodings" => [["é", "é".encode("UTF-16LE"), "\xFF".b], :length, "é".b + "é".encode("UTF-16LE").b + "\xFF".b]
  }.each do |name, (body, framing, content)|
    define_method(:"test_#{name.tr(" ", "_")}") do
      serve { |_env| [200, {}, (Proc === body && body.arity.zero?) ? body.call : body] }
      wire = connect
      2.times do
        answer = (wire << get).answer
        assert_equal [framing, content.b], [answer.framing, answer.body]
      end
      assert_equal 2, body.closed if Body === body
    end
  end

  def test_a_part_that_is_shared_by_all_requests_and_larger_than_what_the_kernel_takes
    big = "x" * 4_000_000
    serve { |_env| [200, {}, [big]] }
    clients = Array.new(4) { connect << get }
    clients.each { |wire| assert_equal big, wire.answer.body }
  end

  # The String may belong to the app, which changes it while the client is slow.
  def test_a_part_that_is_changed_while_it_is_sent
    big = "x" * 4_000_000
    serve do |env|
      next [200, {}, [big]] if env["PATH_INFO"] == "/big"
      big.replace("y")
      HELLO.call(env)
    end
    wire = connect(receive: 4_096) << get("/big")
    wire.read(1)
    await_stats(in_flight: 0, streams: 1)
    assert_equal "hello", ask(get("/")).body
    assert_equal "x" * 4_000_000, wire.read(wire_length(4_000_000) - 1)[-4_000_000..]
  end

  def test_parts_that_are_no_strings
    [[1], ["a", nil], [[:a]], Body.new(each: ->(&block) { block.call(1) }), Body.new(to_ary: -> { [1] })].each do |body|
      serve { |_env| [200, {}, body] }
      assert_equal 500, ask(get).status
      assert_match(/(part of class|yielded a) (Integer|NilClass|Array)/, await_log.join)
      assert_equal 1, body.closed if Body === body
    end
  end

  [Object.new, 1, :a, "text"].each do |body|
    define_method(:"test_no_body_#{body.class}") do
      serve { |_env| [200, {}, body] }
      assert_equal 500, ask(get).status
      assert_match(/the app's body is a #{body.class}: it must answer to each, call, to_ary or to_path/, log.join)
    end
  end

  # ---- chunks ----

  def test_parts_without_a_wait_are_sent_together
    serve { |_env| [200, {}, %w[a b c].each] }
    wire = connect << get
    assert_equal %w[a b c], wire.answer.chunks
    assert_predicate wire, :quiet?
  end

  def test_slow_parts_arrive_one_by_one
    steps = gate
    serve { |_env| [200, {}, Enumerator.new { |yielder| 3.times { |n| yielder << n.to_s && steps.pop } }] }
    wire = connect << get
    wire.read_head
    3.times do |n|
      assert_equal "1\r\n#{n}\r\n", wire.read(6)
      assert_predicate wire, :quiet?
      steps << 1
    end
    assert_equal "0\r\n\r\n", wire.read(5)
  end

  # Parts written before the app waits are sent then; later parts follow them, once.
  def test_a_client_that_reads_nothing_while_the_app_writes_and_waits
    steps = gate
    parts = Array.new(200) { |n| "#{n}:#{"x" * 10_000}" }
    serve do |_env|
      body = Enumerator.new do |yielder|
        parts.each_slice(20) do |some|
          some.each { |part| yielder << part }
          steps.pop
        end
      end
      [200, {}, body]
    end
    wire = connect(receive: 4_096) << get
    10.times { clock.settle || steps << 1 }
    assert_equal parts.join, wire.answer.body
  end

  # Parts that did not fit before the app's wait are sent when there is room, or with the next part, but only once.
  def test_parts_that_had_to_be_left_for_a_slow_client
    parts = Array.new(4_000) { |n| "#{n}:".ljust(2_000, "x") }
    made = 0
    serve do |_env|
      body = Enumerator.new do |yielder|
        parts.each do |part|
          yielder << part
          made += 1
          NB.pass
        end
      end
      [200, {}, body]
    end
    wire = connect(receive: 4_096) << get
    clock.settle
    assert_includes 1...parts.size, made, "the app waits for the client"
    assert_equal parts, wire.answer.body.scan(/\d+:x+/)
  end

  # ---- files ----

  [0, 1, 16_383, 16_384, 16_385, 1_000_000].each do |size|
    define_method(:"test_a_file_of_#{size}") do
      content = Random.new(size).bytes(size)
      body = to_path(content)
      serve { |_env| [200, {}, body] }
      wire = connect
      2.times do
        answer = (wire << get).answer
        assert_equal [:length, content], [answer.framing, answer.body]
      end
      assert_equal 2, body.closed
    end
  end

  slow "a client that is slow"
  def test_a_large_file_to_a_slow_client_with_others_beside_it
    content = Random.new(1).bytes(5_000_000)
    body = to_path(content)
    serve { |env| (env["PATH_INFO"] == "/file") ? [200, {}, body] : HELLO.call(env) }
    slow = connect(receive: 4_096) << get("/file")
    slow.read(1)
    10.times { assert_equal "hello", ask(get).body }
    assert_equal content, slow.read(wire_length(5_000_000) - 1)[-5_000_000..]
  end

  def test_a_file_and_a_length
    body = to_path("abcdef")
    serve { |_env| [200, {"content-length" => "3"}, body] }
    wire = connect << get << get
    assert_equal %w[abc abc], wire.answers(2).map(&:body)
  end

  [["a small file", 10, "20"], ["a large file", 100_000, "200000"]].each do |name, size, length|
    define_method(:"test_#{name.tr(" ", "_")}_that_is_shorter_than_it_should_be") do
      body = to_path("x" * size)
      serve { |_env| [200, {"content-length" => length}, body] }
      wire = connect << get << get
      error = assert_raises(NeverBlockTest::Wire::Truncated) { wire.answer }
      assert_equal "x" * size, error.answer.body
      assert_predicate wire, :ended?
      assert_match(/shorter than its Content-Length of #{length}/, await_log.join)
      assert_equal 1, body.closed
    end
  end

  def test_a_file_that_shrinks_while_it_is_sent
    body = to_path("x" * 4_000_000)
    serve { |_env| [200, {}, body] }
    wire = connect(receive: 4_096) << get
    wire.read(1)
    await_stats(in_flight: 0, streams: 1)
    File.truncate(body.to_path, 10)
    wire.rest
    assert_match(/shorter than its Content-Length of 4000000/, await_log.join)
    assert_equal 1, body.closed
  end

  {"that is missing" => ["/no/such/file", /Errno::ENOENT/], "that is a folder" => ["/", /not a regular file/], "with a NUL" => ["a\0b", /null byte/],
   "that is no path" => [5, /TypeError/]}.each do |name, (path, message)|
    define_method(:"test_a_file_#{name.tr(" ", "_")}") do
      body = Body.new(to_path: -> { path }, each: ->(&_block) { raise "not this" })
      serve { |env| (env["PATH_INFO"] == "/file") ? [200, {}, body] : HELLO.call(env) }
      wire = connect << get("/file") << get
      assert_equal [500, 200], wire.answers(2).map(&:status)
      assert_match(message, log.join)
      assert_equal 1, body.closed
    end
  end

  # An IO has a path since Ruby 3.2, which need not lead to its content.
  {
    "a pipe" => -> { IO.pipe.then { |reader, writer| writer.write("hello") && writer.close || reader } },
    "a popen" => -> { IO.popen("echo hello").tap { |io| io.define_singleton_method(:each) { |&block| block.call(read.chomp) } } },
    "a popen whose command is a path" => -> { IO.popen("./Rakefile; echo hello", err: File::NULL).tap { |io| io.define_singleton_method(:each) { |&block| block.call(read.chomp) } } },
    "an unlinked File" => -> { unlinked { |path| File.open(path, "r+") } },
    "a replaced File" => -> { unlinked { |path| File.open(path, "r+") }.tap { |file| File.write(file.path, "another") && replaced << file.path } },
    "an unlinked Tempfile" => -> { Tempfile.new.tap { |file| file.write("hello") && file.rewind && file.unlink } },
    "a to_path that is nil" => -> { Body.new(to_path: -> {}, each: ->(&block) { block.call("hello") }) }
  }.each do |name, body|
    define_method(:"test_the_content_of_#{name.tr(" ", "_")}") do
      serve { |_env| [200, {}, instance_exec(&body)] }
      assert_equal [200, "hello"], ask(get).then { |answer| [answer.status, answer.body] }
    ensure
      replaced.each { |path| File.unlink(path) }
    end
  end

  # No process writes to it: opening it would block the whole server.
  def test_a_file_that_is_a_fifo
    Dir.mktmpdir do |folder|
      path = File.join(folder, "fifo").tap { |name| File.mkfifo(name) }
      body = Body.new(to_path: -> { path }, each: ->(&_block) { raise "not this" })
      serve { |env| (env["PATH_INFO"] == "/file") ? [200, {}, body] : HELLO.call(env) }
      wire = connect << get("/file") << get
      assert_equal [500, 200], wire.answers(2).map(&:status)
      assert_match(/not a regular file/, log.join)
    end
  end

  def test_files_are_not_left_open
    skip "/proc is needed" unless File.exist?("/proc/self/fd")
    body = to_path("x" * 20_000)
    serve { |_env| [200, {}, body] }
    wire = connect << get * 50
    wire.answers(50)
    wait_until("the close") { open_files.count(body.to_path) == 1 }
  end

  # ---- closing: CVE-2022-23634 ----

  {
    "each raises at once" => ->(&_block) { raise "no" },
    "each raises later" => ->(&block) { block.call("a") || raise("no") },
    "each throws" => ->(&_block) { throw :no },
    "each exits" => ->(&_block) { exit },
    "each runs out of stack" => ->(&_block) { (recurse = -> { recurse.call }).call }
  }.each do |name, each|
    define_method(:"test_closed_when_#{name.tr(" ", "_")}") do
      body = Body.new(each:)
      serve { |_env| [200, {"x-of-the" => "body"}, body] }
      wire = connect << get << get
      wire.answers(2).each { |answer| assert_equal [500, nil, "an error occurred\n"], [answer.status, answer["x-of-the"], answer.body] }
      assert_equal 2, await_log(2).size
      await_stats(in_flight: 0)
      assert_equal [2, 2], [body.closed, server.stats[:failed]]
    end
  end

  def test_closed_when_each_raises_after_something_has_left
    body = Body.new(each: ->(&block) { block.call("a" * 20_000) || raise("no") })
    serve { |_env| [200, {}, body] }
    wire = connect << get << get
    assert_raises(NeverBlockTest::Wire::Truncated) { wire.answer }
    assert_predicate wire, :ended?
    assert_equal 1, await_log.size
    await_stats(in_flight: 0)
    assert_equal [1, 1], [body.closed, server.stats[:failed]]
  end

  def test_closed_when_the_client_leaves_an_endless_body
    body = Body.new(each: ->(&block) { loop { block.call("x" * 1_000) } })
    serve { |_env| [200, {}, body] }
    wire = connect << get
    wire.read(100_000)
    wire.reset
    await_stats(in_flight: 0, streams: 0, connections: 0)
    assert_equal 1, body.closed
    assert_equal [0, 1], server.stats.values_at(:failed, :dropped)
  end

  def test_closed_when_the_client_leaves_between_two_parts
    steps = gate
    body = Body.new(each: ->(&block) { loop { block.call("x") || steps.pop } })
    serve { |_env| [200, {}, body] }
    wire = connect << get
    wire.read_head
    wire.read(6)
    wire.reset
    wait_until("the close") { body.closed == 1 || (steps << 1 && false) }
    await_stats(in_flight: 0, streams: 0, connections: 0)
  end

  def test_closed_when_closing_raises
    body = Body.new(each: ->(&block) { block.call("a") })
    def body.close = super && raise("close")
    serve { |_env| [200, {}, body] }
    wire = connect << get << get
    assert_equal %w[a a], wire.answers(2).map(&:body) # the request was complete, so the connection is kept
    assert_match(/RuntimeError: close/, await_log(2).join)
    assert_equal 2, body.closed
  end

  def test_closed_though_it_is_an_array
    closed = 0
    body = ["a"]
    body.define_singleton_method(:close) { closed += 1 }
    serve { |_env| [200, {}, body] }
    wire = connect << get << get
    assert_equal %w[a a], wire.answers(2).map(&:body)
    wait_until("the close") { closed == 2 }
  end

  slow "a client that is slow"
  def test_closed_when_the_server_is_stopped
    body = Body.new(each: ->(&block) { block.call("a") || sleep })
    serve { |_env| [200, {}, body] }
    wire = connect << get
    wire.read_head
    assert_equal "1\r\na\r\n", wire.read(6)
    assert_equal false, server.stop(timeout: 0)
    assert_equal 1, body.closed
    assert_predicate wire, :ended?
  end

  def test_closed_after_hijack
    body = Body.new(each: ->(&_block) { raise "not this" })
    serve { |env| env["rack.hijack"].call.close || [200, {}, body] }
    assert_predicate connect << get, :ended?
    wait_until("the close") { body.closed == 1 }
  end

  private

  def unlinked
    path = File.join(Dir.tmpdir, "nb#{Process.pid}#{rand(1 << 60)}")
    File.write(path, "hello")
    yield(path).tap { File.unlink(path) }
  end

  def replaced = @replaced ||= []

  def to_path(content)
    file = Tempfile.new("body", binmode: true)
    (@files ||= []) << file
    file.write(content)
    file.flush
    path = file.path
    Body.new(to_path: -> { path }, each: ->(&_block) { raise "not this" })
  end

  # The length of a response with Content-Length and Date alone.
  def wire_length(size) = "HTTP/1.1 200 OK\r\nContent-Length: #{size}\r\nDate: Sat, 21 Nov 2026 20:22:59 GMT\r\n\r\n".bytesize + size
end
