# frozen_string_literal: true

require "test_helper"
require "neverblock/server"
require "support/puma_parser"
require "support/served"
require "fuzz/puma/known_heads"

# The same request heads read by Puma and by us. Where they differ, a table below has the difference, an example and the
# reason why ours is right; thousands of heads with random faults show that there is no other difference.
class HttpPumaTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Served

  include NeverBlockPumaFuzz::KnownHeads
  extend NeverBlockPumaFuzz::KnownHeads

  # Valid heads, to be damaged at random.
  SOUND = [
    head,
    head("Accept: */*", "User-Agent: x/1.0 (y; z)", "Cookie: a=1; b=2", "X-One: 1", "X-One: 2", request: "GET /a/b;c?d=e&f=%20 HTTP/1.1"),
    head("Content-Length: 12", "Content-Type: text/plain", request: "POST /f HTTP/1.1"),
    bare("PUT /f HTTP/1.1", "Host: [::1]:80", "Transfer-Encoding: chunked", "Expect: 100-continue"),
    bare("GET http://a.example/x?y HTTP/1.1", "Host: a.example", "Connection: close"),
    head(request: "OPTIONS * HTTP/1.1"),
    bare("GET /old HTTP/1.0", "Connection: keep-alive"),
    head("Connection: Upgrade", "Upgrade: echo", "If-None-Match: \"a\"", request: "DELETE /x HTTP/1.1")
  ].freeze
  BITS = ["\0", "\t", "\n", "\r", "\r\n", " ", "!", "\"", "#", "%", "'", "(", ",", "-", ".", "/", "0", "1", ":", ";", "<", "?", "@", "A", "[", "\\",
    "]", "_", "a", "{", "|", "~", "\x7f", "\x80", "\xff", "\v", ", ", "chunked", "HTTP/1.1", "Host: b\r\n", "Content-Length: 3\r\n",
    "Transfer-Encoding: chunked\r\n"].map(&:b).freeze
  FAULTY = 15_000
  ASKED = 1_000 # about a third of them are not requests

  def setup
    missing = NeverBlockTest::PumaParser.missing
    skip missing if missing
  end

  STRICTER.each do |status, reason, example, why|
    define_method(:"test_we_refuse_#{reason.tr(" ", "_")}_since_#{why[/\A[^:;,]*/].tr(" ", "_")}") do
      assert_equal [status, reason], ours(example), why
      refute_kind_of Array, puma(example), "Puma refuses it too by now: the row can go"
    end
  end

  LOOSER.each do |name, (_, example, why)|
    define_method(:"test_we_take_#{name.tr(" ", "_")}") do
      assert_kind_of Hash, ours(example), why
      assert_kind_of Array, puma(example), "Puma takes it too by now: the row can go"
    end
  end

  def test_we_tell_later
    example = head("a b: c").delete_suffix("\r\n")
    assert_equal [:more, 400], [ours(example), Array(puma(example)).first], LATER
    assert_equal 400, ours("#{example}\r\n").first
  end

  ENV_DIFFERENCES.each do |name, (key, judge, example, why)|
    define_method(:"test_env_of_#{name.tr(" ", "_")}") do
      serve_env
      env, other = env_of(example), puma(example)
      differing = (env.keys | other.keys).grep(key).reject { |one| env[one] == other[one] }
      refute_empty differing, "Puma's env is the same by now: the row can go"
      differing.each { |one| assert judge.call(env[one], other[one], one, example), "#{one}: #{env[one].inspect} and #{other[one].inspect}; #{why}" }
    end
  end

  chaos "heads with random faults"
  def test_thousands_of_faulty_heads_are_judged_alike_but_for_the_tables
    random = Random.new(Integer(ENV.fetch("SEED", "1")))
    counts = Hash.new(0)
    FAULTY.times do
      bytes = damaged(random)
      verdict = difference(bytes, ours(bytes), puma(bytes))
      counts[verdict] += 1
      refute_equal :unexplained, verdict, "#{bytes.inspect}: we say #{ours(bytes).inspect}, Puma says #{puma(bytes).inspect}"
    end
    assert_operator counts[:alike], :>, FAULTY / 2, counts.inspect
    assert_operator counts.size, :>, 15, "too few kinds of differences were met"
  end

  def test_the_env_is_the_same_but_for_the_table
    serve_env
    random = Random.new(Integer(ENV.fetch("SEED", "2")))
    compared = 0
    (SOUND + Array.new(ASKED) { damaged(random) }).each do |bytes|
      head = ours(bytes)
      next unless head.is_a?(Hash)
      bytes = bytes.byteslice(0, head[:head_length])
      other = puma(bytes)
      next unless other.is_a?(Hash)
      compared += 1
      env, other = env_of(bytes), strings(other)
      (env.keys | other.keys).each { |key| assert_explained(bytes, key, env[key], other[key]) }
    end
    assert_operator compared, :>, ASKED / 8
  end

  private

  def ours(bytes) = NeverBlock::Server::Head.parse(bytes)

  # Puma raises errors of its own for some heads.
  def puma(bytes)
    NeverBlockTest::PumaParser.parse(bytes)
  rescue NoMethodError, ArgumentError
    :broken
  end

  # Classifies a difference.
  def difference(bytes, ours, puma)
    return :alike if [ours, puma].all?(Hash) || [ours, puma].all?(Array) || ours == puma
    case ours
    when Array then (STRICTER.any? { |status, reason, *| [status, reason] == ours }) ? ours.last : :unexplained
    when :more then LATER
    else LOOSER.find { |_, (sign, *)| sign.match?(bytes) }&.first || :unexplained
    end
  end

  # One or two faults.
  def damaged(random)
    bytes = SOUND.sample(random:).dup
    random.rand(1..2).times do
      at = random.rand(bytes.bytesize)
      case random.rand(5)
      when 0 then bytes[at, 1] = BITS.sample(random:)
      when 1 then bytes.insert(at, BITS.sample(random:))
      when 2 then bytes[at, random.rand(1..3)] = ""
      when 3 then bytes.setbyte(at, bytes.getbyte(at) ^ (1 << random.rand(8)))
      else
        lines = bytes.split(/(?<=\r\n)/n)
        bytes = lines.insert(random.rand(lines.size), lines.sample(random:)).join
      end
    end
    bytes
  end

  def serve_env
    serve { |env| [200, {"content-type" => "application/octet-stream"}, [Marshal.dump(strings(env))]] }
  end

  # The env that the app gets, with a body of the length in the head.
  def env_of(bytes)
    head = ours(bytes)
    answer = ask(bytes + (head[:chunked] ? "0\r\n\r\n" : "0" * head[:content_length].to_i), head: false)
    assert_equal 200, answer.status, "#{bytes.inspect}: #{answer.body}"
    Marshal.load(answer.body).except(*OURS_ALONE)
  end

  def strings(env) = env.select { |key, value| value.is_a?(String) && key.match?(/\A[A-Z]/) }

  def assert_explained(bytes, key, ours, puma)
    return if ours == puma || PUMA_ALONE.include?(key)
    explained = ENV_DIFFERENCES.any? { |_, (sign, judge, *)| sign.match?(key) && judge.call(ours, puma, key, bytes) }
    assert explained, "#{bytes.inspect}: #{key} is #{ours.inspect} with us, #{puma.inspect} with Puma"
  end
end
