# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "stringio"
require "zlib"

# A small input uses no other thread, and a large one doesn't block the loop: on Ruby 3.3 too, except for calls that
# belong to their fiber (a block, an IO).
class ZlibPatchTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs

  STEPS_ASK = RUBY_VERSION >= "3.4"
  TEXT = File.read(__FILE__).b.freeze
  LARGE = Random.new(1).bytes(300_000).freeze
  LARGER = (LARGE * 20)
  # Inflates to a thousand times its size.
  BOMB = Zlib.deflate("\0" * 20_000_000, 9).freeze
  GZIP_BOMB = Zlib.gzip("\0" * 20_000_000, level: 9).freeze

  # A4 of the review of applications: each call used another thread, at several times the cost.
  def test_a_small_input_uses_no_thread
    threads, = assert_ruby(<<~RUBY).split
      require "neverblock"
      require "stringio"
      text = ("neverblock " * 2_000).freeze
      NeverBlock.run do
        raise unless Zlib.inflate(Zlib.deflate(text)) == text && Zlib.gunzip(Zlib.gzip(text)) == text
        raise unless Zlib::Inflate.inflate(Zlib::Deflate.deflate(text)) == text
        deflate, inflate = Zlib::Deflate.new, Zlib::Inflate.new
        raise unless inflate.inflate(deflate.deflate(text, Zlib::FINISH)) == text
        gzip = Zlib::GzipWriter.new(output = StringIO.new)
        gzip.write(text)
        gzip.flush
        gzip.puts("end")
        gzip.finish
        raise unless Zlib::GzipReader.new(StringIO.new(output.string)).read == text + "end\n"
        p NeverBlock.stats[:pools][:operations][:threads]
      end
    RUBY
    assert_equal "0", threads
  end

  LARGE_CALLS = {
    "Zlib.deflate" => -> { Zlib.deflate(LARGE) },
    "Zlib::Deflate.deflate" => -> { Zlib::Deflate.deflate(LARGE, 1) },
    "Zlib.gzip" => -> { Zlib.gzip(LARGE, level: 1) },
    "Zlib.inflate" => Zlib.deflate(LARGER, 1).then { |source| -> { Zlib.inflate(source) } },
    "Zlib.gunzip" => Zlib.gzip(LARGER, level: 1).then { |source| -> { Zlib.gunzip(source) } },
    "Zlib::Deflate#deflate" => -> { Zlib::Deflate.new.deflate(LARGE, Zlib::FINISH) },
    "Zlib::Deflate#<<" => -> { (Zlib::Deflate.new << LARGE).finish },
    "Zlib::Inflate#inflate" => Zlib.deflate(LARGER, 1).then { |source| -> { Zlib::Inflate.new.inflate(source) } },
    "Zlib::Inflate#<<" => Zlib.deflate(LARGER, 1).then { |source| -> { (Zlib::Inflate.new << source).finish } },
    "Zlib::GzipWriter#write" => -> { StringIO.new.tap { |io| Zlib::GzipWriter.new(io, 1).tap { |gzip| gzip.write("", LARGE) }.finish }.string }
  }.reject { |name, _| name.include?("Writer") && !STEPS_ASK }.freeze

  LARGE_CALLS.each do |name, call|
    define_method("test_a_large_#{name.tr(":", "_")}_does_not_hold_the_loop") do
      expected = call.call
      value, turns = beside_another { call.call }
      assert_equal expected.bytesize, value.bytesize
      header = name.match?(/gzip/i) ? 10 : 0 # the header of gzip has the time
      assert_equal expected.byteslice(header..), value.byteslice(header..)
      assert_operator turns, :>, 0
    end
  end

  BOMBS = {
    "Zlib.inflate" => -> { Zlib.inflate(BOMB) },
    "Zlib::Inflate.inflate" => -> { Zlib::Inflate.inflate(BOMB) },
    "Zlib.gunzip" => -> { Zlib.gunzip(GZIP_BOMB) },
    "Zlib::Inflate#inflate" => -> { Zlib::Inflate.new.inflate(BOMB) },
    "Zlib::Inflate#<<" => -> { (Zlib::Inflate.new << BOMB).finish },
    "Zlib::Inflate#inflate with a block" => -> { Zlib::Inflate.new.inflate(BOMB) { |part| raise unless part.bytesize < 17_000 } },
    "Zlib::GzipReader#read" => -> { Zlib::GzipReader.new(StringIO.new(GZIP_BOMB)).read }
  }.reject { |name, _| name.match?(/block|Reader/) && !STEPS_ASK }.freeze

  BOMBS.each do |name, call|
    define_method("test_what_is_small_and_becomes_large_does_not_hold_the_loop_#{name.tr(":", "_")}") do
      value, turns = beside_another { call.call }
      assert_equal 20_000_000, value.bytesize if value
      assert_operator turns, :>, 0
    end
  end

  def test_the_bomb_is_small
    assert_operator BOMB.bytesize, :<, 20_000
  end

  # Other fibers run repeatedly, not once.
  def test_steps_take_turns_by_time
    skip "Ruby 3.3 asks no scheduler" unless STEPS_ASK
    reader = Zlib::GzipReader.new(StringIO.new(Zlib.gzip("\0" * 200_000_000, level: 1)))
    value, turns = beside_another { reader.read }
    assert_equal 200_000_000, value.bytesize
    assert_operator turns, :>, 10 # of 200 and more
  end

  # -- the same as without a loop

  SIZES = [0, 1, 507, 508, 509, 8_000, 65_535, 65_536, 65_537, 524_287, 524_288, 524_289, 700_000].freeze

  slow "hundreds of strings"
  def test_results_are_ruby_s
    contents = SIZES.flat_map { |size| [(TEXT * (size / TEXT.bytesize + 1)).byteslice(0, size), "\0" * size, Random.new(size).bytes(size)] }
    calls = contents.flat_map do |content|
      deflated, gzipped = Zlib.deflate(content), Zlib.gzip(content)
      [-> { Zlib.inflate(deflated) }, -> { Zlib.inflate(deflated + "more") }, -> { Zlib.gunzip(gzipped) }, -> { Zlib.gunzip(gzipped + gzipped) },
        -> { Zlib.deflate(content) }, -> { Zlib.deflate(content, 9) }, -> { Zlib::Inflate.new.inflate(deflated + "more") },
        -> { parts(Zlib::Inflate.new, :inflate, deflated) }, -> { parts(Zlib::Deflate.new(0), :deflate, content, Zlib::FINISH) },
        -> { Zlib::Inflate.new.then { |stream| stream.inflate(deflated, buffer: +"") } }]
    end
    assert_same_as_ruby(calls)
  end

  slow "hundreds of broken strings"
  def test_invalid_data_is_refused_with_rubys_error
    random = Random.new(2)
    calls = [700, 5_000, 400_000].flat_map do |size|
      [Zlib.deflate(random.bytes(size)), Zlib.gzip(random.bytes(size)), Zlib.gzip("\0" * size * 10), Zlib.deflate("\0" * size * 10)].flat_map do |source|
        positions = Array.new(10) { random.rand(source.bytesize) }
        broken = positions.map { |position| source.dup.tap { |copy| copy.setbyte(position, copy.getbyte(position) ^ (1 << random.rand(8))) } }
        cut = positions.map { |position| source.byteslice(0, position % source.bytesize) }
        [*broken, *cut].flat_map { |bad| [-> { Zlib.inflate(bad) }, -> { Zlib.gunzip(bad) }] }
      end
    end
    assert_same_as_ruby(calls)
  end

  # zlib reads it, Ruby does not.
  def test_a_gzip_header_with_a_checksum
    source = Zlib.gzip(TEXT).tap { |copy| copy.setbyte(3, 2) }
    source.insert(10, [Zlib.crc32(source[0, 10]) & 0xffff].pack("v"))
    assert_same_as_ruby([-> { Zlib.gunzip(source) }])
    assert_equal TEXT, Zlib::Inflate.new(Zlib::MAX_WBITS + 16).inflate(source)
  end

  def test_dictionaries
    dictionary = TEXT[0, 3_000]
    deflate = Zlib::Deflate.new
    deflate.set_dictionary(dictionary)
    source = deflate.deflate(TEXT + LARGE, Zlib::FINISH)
    with = -> { Zlib::Inflate.new.tap { |stream| stream.add_dictionary(dictionary) }.inflate(source) }
    assert_same_as_ruby([-> { Zlib.inflate(source) }, with, -> { parts(Zlib::Inflate.new.tap { |stream| stream.add_dictionary(dictionary) }, :inflate, source) }])
  end

  def test_invalid_arguments_are_left_to_ruby
    text = Object.new.tap { |object| def object.to_str = "text" }
    assert_same_as_ruby([-> { Zlib.deflate(nil) }, -> { Zlib.inflate(1) }, -> { Zlib.deflate }, -> { Zlib.gzip(LARGE, levels: 1) }, -> { Zlib.gunzip(:a) },
      -> { Zlib.deflate(LARGE, 77) }, -> { Zlib.deflate(text) }, -> { Zlib::Deflate.new.deflate }, -> { Zlib::Inflate.new.inflate(nil) },
      -> { Zlib::Inflate.new.tap(&:close).inflate(LARGE) }])
  end

  def test_two_tasks_with_one_stream
    in_run do
      deflate = Zlib::Deflate.new(1)
      parts = NeverBlock.concurrently(Array.new(4) { LARGE }) { |content| deflate.deflate(content, Zlib::FULL_FLUSH) }
      assert_equal LARGE * 4, Zlib.inflate(parts.sort_by { |part| part.start_with?("\x78") ? 0 : 1 }.join + deflate.finish)
    end
  end

  # From Ruby 3.4 on a stream has a lock, held by the calling fiber.
  def test_a_stream_inside_itself
    assert_same_as_ruby([-> { Zlib::Deflate.new.then { |stream| stream.deflate(LARGE) { stream.deflate(LARGE) } } },
      -> { Zlib::Inflate.new.then { |stream| stream.inflate(Zlib.deflate(LARGE)) { stream.inflate(LARGE) } } }])
  end

  def test_collections_meanwhile
    stress, GC.stress = GC.stress, false
    in_run do
      NeverBlock.concurrently(1..4) do |number|
        GC.start
        content = Random.new(number).bytes(70_000 * number)
        assert_equal content, Zlib.gunzip(Zlib.gzip(content))
        assert_equal content, Zlib.inflate(Zlib.deflate(content))
      end
    end
  ensure
    GC.stress = stress
  end

  def test_in_a_ractor
    outcome = run_ruby(<<~RUBY)
      require "neverblock"
      NeverBlock.run {}
      ractor = Ractor.new do
        small, large = "a" * 10_000, "b" * 3_000_000
        NeverBlock.run { [small, large].map { |content| Zlib.inflate(Zlib.deflate(content)) == content && Zlib.gunzip(Zlib.gzip(content)) == content } }
      end
      p ractor.respond_to?(:value) ? ractor.value : ractor.take
    RUBY
    assert_equal "[true, true]\n", outcome.stdout, outcome.stderr
  end

  # -- leaving

  # A call that has not begun is withdrawn. The rest is in scheduler/effects_test.rb.
  def test_a_stream_continues_after_its_caller_was_cancelled
    in_run do
      deflate, first = Zlib::Deflate.new(1), nil
      task = NeverBlock.spawn { first = deflate.deflate(LARGE) }
      NeverBlock.pass until task.waits_for || !task.alive?
      task.cancel
      task.join
      assert_equal (first ? LARGE : "") + TEXT, Zlib.inflate(first.to_s + deflate.deflate(TEXT, Zlib::FINISH))
    end
  end

  private

  # @return [Array] the block's value, and the turns that another task had meanwhile
  def beside_another
    in_run do |scope|
      turns = 0
      # After a while the task sleeps, and so releases the interpreter's lock to other threads.
      other = scope.spawn do
        loop do
          turns += 1
          (turns > 100) ? nap : NeverBlock.pass
        end
      end
      turns = 0
      [yield, turns].tap { other.cancel }
    end
  end

  def parts(stream, word, *) = +"".b.tap { |output| stream.public_send(word, *) { |part| output << part } }.concat(stream.finish)

  def assert_same_as_ruby(calls)
    expected = calls.map { |call| outcome_of(call) }
    actual = in_run { calls.map { |call| outcome_of(call) } }
    calls.each_with_index { |call, index| assert_equal expected[index], actual[index], "the call at line #{call.source_location.last}" }
  end

  # Ruby warns about a stream that ends early.
  def outcome_of(call)
    verbose, $VERBOSE = $VERBOSE, false
    value = call.call
    [value.class, value.encoding, value.bytesize, value.hash, value.frozen?]
  rescue => error
    [error.class, error.message]
  ensure
    $VERBOSE = verbose
  end
end
