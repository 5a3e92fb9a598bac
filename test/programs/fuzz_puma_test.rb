# frozen_string_literal: true

# chaos: random requests, to Puma as well (30 s)

require "test_helper"
require "rbconfig"
require "fuzz/puma/client"
require "fuzz/puma/comparison"
require "fuzz/puma/generator"
require "fuzz/puma/known"

# Random requests to Puma and to our server: see test/fuzz/puma. A failure prints its seed, the bytes, both answers, and
# the command that reruns it.
class FuzzPumaTest < Minitest::Test
  # A fixed number, so that a slow machine sees the same requests: some 20 s. CI begins at the same seed each time;
  # `rake fuzz:puma` begins at a random one.
  REQUESTS = Integer(ENV.fetch("NEVERBLOCK_FUZZ_REQUESTS", "1000"))
  FROM = Integer(ENV.fetch("NEVERBLOCK_FUZZ_SEED", "31"))
  GEMFILE = File.join(NeverBlockTest::ROOT, "test", "apps", "rails", "8.1.gemfile")

  def test_random_requests
    output, status = fuzz("REQUESTS" => REQUESTS.to_s, "FROM" => FROM.to_s)
    assert_predicate status, :success?, output
    assert_match(/^#{REQUESTS} conversations, \d+ of \d+ known differences met, \d+ differed once, 0 differ$/o, output)
  end

  # An oracle that finds nothing might not work: it must find each of the hundred that are known.
  def test_each_known_difference_is_still_there
    output, status = fuzz("KNOWN" => "1")
    assert_predicate status, :success?, output
    assert_match(/^\d{2,} known differences, 0 not needed$/, output)
  end

  def test_a_seed_always_makes_the_same_conversation
    assert_equal(*Array.new(2) { NeverBlockPumaFuzz::Generator.new(7).conversation })
    refute_equal(*[7, 8].map { |seed| NeverBlockPumaFuzz::Generator.new(seed).conversation.parts })
  end

  ANSWER = "HTTP/1.1 200 OK\r\nx-request: GET /a HTTP/1.1\r\ncontent-length: 11\r\n\r\n\"PATH\" \"/a\"".b
  REFUSAL = "HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\nno".b

  # What differs from ANSWER, and the kind and the key of that.
  {
    "another_value" => [ANSWER.sub('"/a"', '"/b"'), :env, "PATH"],
    "another_status" => [ANSWER.sub("200", "201"), :status, nil],
    "a_field_more" => [ANSWER.sub("\r\n", "\r\nx-a: 1\r\n"), :field, "x-a"],
    "a_shorter_body" => [ANSWER.chop, :complete, nil],
    "another_end" => [ANSWER.sub("content-length: 11", "x: y"), :framing, nil],
    "an_interim_answer" => ["HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n#{ANSWER}", :interim, "103"],
    "a_refusal" => [REFUSAL, :refusal, nil],
    "no_answer" => ["", :missing, nil],
    "another_answer" => [ANSWER * 2, :missing, nil],
    "bytes_behind" => ["#{ANSWER}a", :bytes, nil]
  }.each do |name, (bytes, kind, key)|
    define_method(:"test_#{name}_is_a_difference") do
      found = compare(bytes, ANSWER)
      assert_includes found.map { |one| [one.kind, one.key] }, [kind, key]
      assert_empty found.flat_map { |one| NeverBlockPumaFuzz::Known.rows(one) }.grep_v(/nothing/).map(&:what), "known"
    end
  end

  def test_the_same_answers_do_not_differ
    assert_empty compare(ANSWER, ANSWER)
    assert_empty compare(REFUSAL, REFUSAL.sub("no", "as"))
    assert_empty compare("HTTP/1.1 100 Continue\r\n\r\n", ""), "both wait for more"
  end

  def test_a_server_that_hangs_or_resets_differs
    assert_equal [:ending], compare(ANSWER, ANSWER, ending: :hanging).map(&:kind)
    assert_equal [:ending], compare(ANSWER, ANSWER, ending: :reset).map(&:kind)
  end

  private

  def compare(ours, puma, ending: :closed)
    conversation = NeverBlockPumaFuzz::Conversation.new(0, ["GET /a HTTP/1.1\r\nHost: a\r\n\r\n"])
    outcomes = [[ours, ending], [puma, :closed]].map { |bytes, one| NeverBlockPumaFuzz::Client::Outcome.new(bytes.b, one) }
    NeverBlockPumaFuzz::Comparison.new(conversation, *outcomes).differences
  end

  def fuzz(variables)
    skip "bin/setup has not installed the gems of Rails 8.1" unless File.exist?("#{GEMFILE}.lock")
    bundle = {"BUNDLE_GEMFILE" => GEMFILE, "BUNDLE_LOCKFILE" => nil, "BUNDLE_PATH" => File.join(NeverBlockTest::ROOT, "vendor", "bundle"), "RUBYOPT" => nil, "RUBYLIB" => nil}
    libraries = [*ENV["NEVERBLOCK_TEST_LIBRARY"], "lib"].flat_map { |folder| ["-I", folder] }
    Open3.capture2e({**bundle, **variables}, RbConfig.ruby, *libraries, "-rbundler/setup", "test/fuzz/puma/run.rb", chdir: NeverBlockTest::ROOT)
  end
end
