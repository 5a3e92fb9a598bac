# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"
require "rack"
require "support/served"

# What an app is told about a body in chunks. Rails reads no content without CONTENT_LENGTH or HTTP_TRANSFER_ENCODING,
# and lost such bodies without a word.
class ServerChunkedRequestsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Served

  TOLD = ->(env) { [200, {}, [env.values_at("CONTENT_LENGTH", "HTTP_TRANSFER_ENCODING").inspect, env["rack.input"].read]] }

  {"of some bytes" => ["ab", "cde"], "without bytes" => [], "of a file" => ["x" * 300_000]}.each do |name, chunks|
    define_method(:"test_a_collected_body_#{name.tr(" ", "_")}_has_its_length") do
      serve(TOLD)
      assert_equal "[\"#{chunks.sum(&:size)}\", nil]#{chunks.join}", ask(post_chunks("/", chunks)).body
    end
  end

  def test_a_streamed_body_has_its_coding
    serve(TOLD, request_body: :stream)
    assert_equal '[nil, "chunked"]abcde', ask(post_chunks("/", ["ab", "cde"])).body
  end

  def test_a_length_stays_as_it_is
    serve(TOLD)
    assert_equal '["3", nil]abc', ask(post("/", "abc")).body
    assert_equal "[nil, nil]", ask(get("/")).body
  end

  def test_the_values_last_for_one_request
    serve(TOLD)
    wire = connect << post_chunks("/", ["abc"]) << get("/") << post_chunks("/", ["d"])
    assert_equal ['["3", nil]abc', "[nil, nil]", '["1", nil]d'], wire.answers(3).map(&:body)
  end

  def test_forms_are_parsed
    serve { |env| [200, {}, [Rack::Request.new(env).POST.inspect]] }
    form = post_chunks("/", ["amount", "=5"], "Content-Type: application/x-www-form-urlencoded")
    assert_equal '{"amount"=>"5"}', ask(form).body.delete(" ")
  end

  # It was stored, and given to requests with another content.
  [:buffer, :stream].each do |request_body|
    define_method(:"test_the_cache_never_shares_a_GET_with_a_body_in_chunks_#{request_body}") do
      app = ->(env) { [200, {"cache-control" => "max-age=60"}, [env["rack.input"].read]] }
      serve(NeverBlock::Cache.new(app), request_body:)
      bodies = %w[anna bert].map { |name| ask(post_chunks("/", [name]).sub("POST", "GET")).body }
      assert_equal %w[anna bert], bodies
    end
  end
end
