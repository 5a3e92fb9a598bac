# frozen_string_literal: true

# slow: starts servers

require "test_helper"
require "neverblock"
require "stringio"
require "support/nginx"
require "support/peer"
require "support/served"

# The proxy's client with servers that are no scripts: our own, and nginx.
class ProxyClientTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Served

  Proxy = NeverBlock::Proxy

  APP = lambda do |env|
    case env["PATH_INFO"]
    when "/echo"
      body = env["rack.input"]&.read.to_s
      [200, {"content-type" => "text/plain", "x-length" => env["CONTENT_LENGTH"].to_s}, [body]]
    when "/stream" then [200, {}, Enumerator.new { |pieces| 100.times { |number| pieces << "#{number}," } }]
    when "/hints"
      env["rack.early_hints"]&.call("link" => "</a.css>; rel=preload")
      [200, {}, ["ok"]]
    when "/none" then [204, {}, []]
    when "/old" then [304, {"etag" => "\"a\""}, []]
    when "/host" then [200, {}, [env["HTTP_HOST"]]]
    else [404, {}, ["not here"]]
    end
  end

  def teardown
    @pool&.close
    super
  end

  def pool(url, pool: {}, **) = @pool = Proxy::ConnectionPool.new(Proxy::Upstream.new(url, **), **pool)

  def ask(method, target, on_interim: nil, **options)
    Proxy::Exchange.new(@pool, Proxy::Request.new(method, target, **options), on_interim:).call
  end

  def walk
    long = Random.bytes(300_000)
    assert_equal [404, "not here"], ask("GET", "/").then { |response| [response.status, response.to_a.join] }
    assert_equal long, ask("POST", "/echo", body: long).to_a.join
    assert_equal long, ask("POST", "/echo", body: StringIO.new(long), length: long.bytesize).to_a.join
    assert_equal long, ask("PUT", "/echo", body: StringIO.new(long)).to_a.join
    assert_equal "abc", ask("POST", "/echo", body: "abc", expect_continue: true).to_a.join
    assert_equal (0...100).map { |number| "#{number}," }.join, ask("GET", "/stream").to_a.join
    assert_equal "example.org", ask("GET", "/host", host: "example.org").to_a.join
    assert_equal [204, nil], ask("GET", "/none").then { |response| [response.status, response.read] }
    assert_equal [304, "\"a\"", nil], ask("GET", "/old").then { |response| [response.status, response["etag"], response.read] }
    assert_equal [200, nil], ask("HEAD", "/stream").then { |response| [response.status, response.read] }
    hints = []
    assert_equal "ok", ask("GET", "/hints", on_interim: ->(status, fields) { hints << [status, fields.assoc("link")&.last] }).to_a.join
    assert_equal [[103, "</a.css>; rel=preload"]], hints
    assert_equal 1, @pool.stats[:opened]
  end

  def test_our_own_server_in_a_loop_and_outside
    serve(APP)
    url = server.addresses.first.sub("tcp:", "http:")
    pool(url)
    NeverBlock.run { walk }
    @pool.close
    pool(url)
    walk
  end

  def test_our_own_server_on_a_unix_socket
    serve(APP, unix: true)
    pool(server.addresses.first)
    NeverBlock.run { walk }
  end

  def test_many_exchanges_at_a_time
    serve(APP)
    pool(server.addresses.first.sub("tcp:", "http:"), pool: {max_connections: 40, max_idle: 40})
    bodies = Array.new(500) { |number| "#{number} " * (number % 50) }
    echoed = NeverBlock.run do
      NeverBlock.concurrently(bodies) { |body| ask("POST", "/echo", body: body).to_a.join }
    end
    assert_equal bodies, echoed
    assert_operator @pool.stats[:opened], :<=, 40
    assert_equal 0, @pool.stats[:held]
  end

  def test_threads_and_loops_share_a_pool
    serve(APP)
    pool(server.addresses.first.sub("tcp:", "http:"))
    threads = Array.new(4) do |number|
      Thread.new do
        work = -> { Array.new(25) { |turn| ask("POST", "/echo", body: "#{number}/#{turn}").to_a.join } }
        number.even? ? work.call : NeverBlock.run { work.call }
      end
    end
    assert_equal Array.new(4) { |number| Array.new(25) { |turn| "#{number}/#{turn}" } }, threads.map(&:value)
    assert_operator @pool.stats[:opened], :<=, 4
  end

  def test_nginx
    reason = NeverBlockTest::Peer.missing("nginx") and skip reason
    port = NeverBlockTest::Peer.free_port
    peer = NeverBlockTest::Peer.start(signal: "QUIT") do |folder|
      write(folder, port)
      NeverBlockTest::Nginx.command(folder)
    end
    peer.until_ready { NeverBlockTest::Peer.listens?(port) }
    pool("http://127.0.0.1:#{port}")
    [->(&block) { NeverBlock.run(&block) }, ->(&block) { block.call }].each { |way| way.call { walk_nginx } }
  ensure
    peer&.stop
  end

  private

  def walk_nginx
    opened = @pool.stats[:opened]
    long = ask("GET", "/long")
    assert_equal [200, 500_000], [long.status, long.length]
    assert_equal "x" * 500_000, long.to_a.join
    assert_equal "chunks " * 1_000, ask("GET", "/chunks").to_a.join.sub(/<!-- end -->\z/, "")
    assert_equal [200, nil], ask("HEAD", "/long").then { |response| [response.status, response.read] }
    assert_equal [304, nil], ask("GET", "/long", fields: {"if-none-match" => long["etag"]}).then { |response| [response.status, response.read] }
    assert_equal [206, "xxx"], ask("GET", "/long", fields: {"range" => "bytes=0-2"}).then { |response| [response.status, response.to_a.join] }
    assert_equal "GET abc", ask("GET", "/say?abc").to_a.join
    assert_operator @pool.stats[:opened] - opened, :<=, 1
    # It responds as soon as it has read the head, and closes the connection.
    assert_equal 413, ask("POST", "/say", body: StringIO.new("x" * 4_000_000), length: 4_000_000).tap(&:close).status
  end

  def write(folder, port)
    File.write("#{folder}/long", "x" * 500_000)
    File.write("#{folder}/chunks", "chunks " * 1_000)
    NeverBlockTest::Nginx.write(folder, <<~NGINX)
      server {
        listen 127.0.0.1:#{port};
        root #{folder};
        client_max_body_size 1m;
        location /chunks { ssi on; ssi_types *; }
        location /say { return 200 "$request_method $args"; }
      }
    NGINX
  end
end
