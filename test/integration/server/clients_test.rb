# frozen_string_literal: true

require "test_helper"
require "neverblock/server"
require "support/client_app"
require "support/clients/curl"
require "support/clients/excon"
require "support/clients/http_rb"
require "support/clients/httpx"
require "support/clients/net_http"
require "stringio"

# Common HTTP clients, each with every kind of request and answer.
class ClientsTest < Minitest::Test
  include NeverBlockTest

  CLIENTS = {curl: Clients::Curl, net_http: Clients::NetHttp, httpx: Clients::Httpx, http_rb: Clients::HttpRb, excon: Clients::Excon}.freeze

  # Defines a test for each client that supports the feature.
  # @param needs [Symbol, nil] a feature that a client may lack
  def self.each_client(name, needs: nil, &block)
    CLIENTS.each do |word, client|
      next if client::CANNOT.include?(needs)
      slow "large bodies" if name.start_with?("big")
      define_method(:"test_#{word}_#{name}") do
        missing = client.missing
        skip missing if missing
        instance_exec(client, &block)
      end
    end
  end

  def setup
    @app = ClientApp.new
    @errors = StringIO.new
    @folder = Dir.mktmpdir("nb")
    @server = NeverBlock::Server.new(@app.to_app, bind: ["tcp://127.0.0.1:0", "unix://#{@folder}/s"], error_log: @errors, early_hints: true).start
  end

  def teardown
    @client&.close
    assert_equal true, @server.stop, "something was cut short"
    assert_empty @errors.string
    assert_equal 0, @server.stats.values_at(:connections, :in_flight, :streams, :body_bytes).sum + @server.stats[:refused].values.sum
  ensure
    @app.clear
    FileUtils.rm_rf(@folder)
  end

  each_client :get do |client|
    answer = meet(client).call("GET", "/hello", headers: {"X-Say" => "tea, \u00fc".b})
    assert_equal [200, "hello", "5", "text/plain"], [answer.status, answer.body, answer["content-length"], answer["content-type"]]
    assert_equal "tea, \u00fc".b, answer["x-said"].b
    assert_match(/\A\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT\z/, answer["date"])
  end

  each_client :keeps_its_connection do |client|
    answers = meet(client).several("/hello", "/echo?a=%20b", "/each", "/hello", "/missing", "/wait")
    assert_equal [200, 200, 200, 200, 404, 200], answers.map(&:status)
    assert_equal "a=%20b", JSON.parse(answers[1].body)["query"]
    assert_equal ["hello", "onetwothree", "hello", "there is no /missing", "waited"], answers.map(&:body).values_at(0, 2, 3, 4, 5)
    assert_equal [1, 6], @server.stats.values_at(:accepted, :requests)
  end

  each_client :keeps_its_connection_after_answers_of_every_framing, needs: :keep do |client|
    meet(client)
    asked = [%w[HEAD /hello], %w[GET /204], %w[GET /304], %w[HEAD /each], %w[GET /call], %w[DELETE /echo], %w[GET /cookies], %w[PUT /echo], %w[GET /hello]]
    statuses = asked.map { |method, path| @client.call(method, path, body: ("x" if method == "PUT")).status }
    assert_equal [200, 204, 304, 200, 200, 200, 200, 200, 200], statuses
    assert_equal [1, 9], @server.stats.values_at(:accepted, :requests)
  end

  each_client :post_with_a_length do |client|
    ["", "x", "x" * 70_000].each do |body|
      answer = meet(client).call("POST", "/echo", body:)
      said = JSON.parse(answer.body)
      assert_equal [200, "POST", body.bytesize, Digest::SHA256.hexdigest(body)], [answer.status, *said.values_at("method", "bytes", "digest")]
      assert_equal body.bytesize.to_s, said["length"] || "0"
    end
  end

  each_client :post_chunked, needs: :chunked do |client|
    pieces = ["a" * 10, "b", "c" * 20_000, "d"]
    said = JSON.parse(meet(client).call("POST", "/echo", body: pieces).body)
    assert_equal [20_012, Digest::SHA256.hexdigest(pieces.join)], said.values_at("bytes", "digest")
  end

  each_client :big_upload do |client|
    body = ClientApp::BIG * ClientApp::BIG_COUNT
    said = JSON.parse(meet(client).call("POST", "/echo", body:).body)
    assert_equal [body.bytesize, ClientApp::DIGEST], said.values_at("bytes", "digest")
  end

  each_client :big_chunked_upload, needs: :chunked do |client|
    said = JSON.parse(meet(client).call("POST", "/echo", body: [ClientApp::BIG] * ClientApp::BIG_COUNT).body)
    assert_equal [ClientApp::BIG.bytesize * ClientApp::BIG_COUNT, ClientApp::DIGEST], said.values_at("bytes", "digest")
  end

  each_client :big_both_ways do |client|
    assert_equal ClientApp::BIG, meet(client).call("POST", "/mirror", body: ClientApp::BIG).body.b
  end

  each_client :big_downloads do |client|
    %w[/big /big/each /file].each do |path|
      answer = meet(client).call("GET", path)
      assert_equal [200, ClientApp::DIGEST], [answer.status, Digest::SHA256.hexdigest(answer.body)], path
    end
  end

  each_client :gzip do |client|
    answer = meet(client).call("GET", "/gzip")
    assert_equal [200, ClientApp::TEXT], [answer.status, answer.body.to_s]
  end

  each_client :head do |client|
    answer = meet(client).call("HEAD", "/hello")
    assert_equal [200, "5", ""], [answer.status, answer["content-length"], answer.body.to_s]
  end

  each_client :answers_without_a_body do |client|
    %w[/204 /304].each do |path|
      answer = meet(client).call("GET", path)
      assert_equal [path[1..].to_i, nil, ""], [answer.status, answer["transfer-encoding"], answer.body.to_s]
    end
  end

  each_client :cookies do |client|
    assert_equal ["a=1; path=/", "b=2"], meet(client).call("GET", "/cookies").headers["set-cookie"].flat_map { |value| value.split(", ") }
  end

  each_client :pieces_come_as_they_are_made do |client|
    came = +""
    meet(client).stream("/paced") do |piece|
      came << piece
      @app.go_on if ClientApp::PIECES.each_index.any? { |index| came == ClientApp::PIECES[0..index].join }
    end
    assert_equal "onetwothree", came
  end

  each_client :continue, needs: :expect do |client|
    body = "x" * 3_000
    assert_equal 3_000, JSON.parse(meet(client).expect("/echo", body).body)["bytes"]
  end

  each_client :early_hints, needs: :hints do |client|
    answer = meet(client).call("GET", "/hints")
    assert_equal [200, "hinted", nil], [answer.status, answer.body, answer["link"]]
  end

  each_client :unix_socket, needs: :unix do |client|
    @client = client.new(nil, socket: "#{@folder}/s")
    assert_equal "hello", @client.call("GET", "/hello").body
    assert_equal 5, JSON.parse(@client.call("POST", "/echo", body: "hello").body)["bytes"]
  end

  each_client :an_error_keeps_the_connection do |client|
    answers = meet(client).several("/fail", "/hello")
    assert_equal [[500, "an error occurred\n"], [200, "hello"]], answers.map { |answer| [answer.status, answer.body] }
    assert_equal 1, @server.stats[:accepted]
    assert_match(/error: GET \/fail HTTP\/1\.1: RuntimeError: no \|/, @errors.string)
    @errors.truncate(@errors.rewind)
  end

  private

  def meet(client) = @client ||= client.new(@server.addresses.first[/\d+\z/])
end
