# frozen_string_literal: true

require "test_helper"
require "neverblock/proxy"

# The lines of a request's fields: what a value may hold, and which entries of Rack's env become lines.
class HttpFieldLinesTest < Minitest::Test
  Lines = NeverBlock::FieldLines

  def test_a_line
    lines = +"a: b\r\n"
    assert_equal true, Lines.add(lines, "accept: ", "text/html")
    assert_equal "a: b\r\naccept: text/html\r\n", lines
    assert_equal true, Lines.add(lines = "".b, "x: ", "")
    assert_equal true, Lines.add(lines, "y: ", "\t é\xFF")
    assert_equal "x: \r\ny: \t é\xFF\r\n".b, lines
  end

  def test_each_byte_that_a_value_must_not_have
    bad = [*0..255].reject { |byte| byte == 9 || (byte >= 32 && byte != 127) }
    refused = (0..255).select { |byte| [0, 1, 20, 40].any? { |at| !Lines.add(lines = "".b, "x: ", "a".b * at + byte.chr + "b".b * 20) && lines.empty? } }
    assert_equal bad, refused
  end

  def test_no_strings
    [nil, 1, :a, ["a"]].each { |value| assert_equal false, Lines.add("".b, "x: ", value) }
    assert_raises(TypeError) { Lines.add(nil, "x: ", "a") }
    assert_raises(TypeError) { Lines.add("".b, nil, "a") }
    assert_raises(FrozenError) { Lines.add("".b.freeze, "x: ", "a") }
    assert_raises(TypeError) { Lines.of_env([], {}) }
    assert_raises(TypeError) { Lines.of_env({}, nil) }
    assert_raises(TypeError) { Lines.of_env({"HTTP_A" => "a"}, {"HTTP_A" => 1}) }
  end

  def test_an_env
    env = {"HTTP_A" => "1", "HTTP_B" => "2", "HTTP_NEW" => "3", "HTTP" => "4", "http_a" => "5", :HTTP_A => "6", "HTTP_LIST" => ["7"], "HTTP_" => "8"}
    asked = []
    prefixes = Hash.new { |_, name| asked << name && "#{name}: " }.update("HTTP_A" => "a: ", "HTTP_B" => false)
    assert_equal "a: 1\r\nHTTP_NEW: 3\r\nHTTP_: 8\r\n", Lines.of_env(env, prefixes)
    assert_equal %w[HTTP_NEW HTTP_], asked
    assert_equal Encoding::BINARY, Lines.of_env({}, {}).encoding
  end

  def test_a_value_that_can_not_be_sent
    env = {"HTTP_A" => "1\r\nb: 2", "HTTP_B" => "2"}
    prefixes = {"HTTP_A" => "a: ", "HTTP_B" => "b: "}
    seen = []
    assert_equal "b: 2\r\n", Lines.of_env(env, prefixes) { |name| seen << name }
    assert_equal %w[HTTP_A], seen
    assert_raises(KeyError) { Lines.of_env(env, prefixes) { raise KeyError } }
    env["HTTP_C"] = "the env is not locked"
    assert_raises(LocalJumpError) { Lines.of_env(env, prefixes) }
  end

  def test_collection_and_compaction_at_any_time
    env = Array.new(40) { |n| ["HTTP_X#{n}", "v" * n * 5] }.to_h
    prefixes = Hash.new { |known, name| known[name] = "#{name.downcase}: " }
    expected = env.map { |name, value| "#{name.downcase}: #{value}\r\n" }.join
    GC.stress = true
    found = Lines.of_env(env, prefixes)
    GC.stress = false
    assert_equal expected, found
    GC.compact if GC.respond_to?(:compact)
    assert_equal expected, Lines.of_env(env, prefixes)
  ensure
    GC.stress = false
  end
end
