# frozen_string_literal: true

# slow: it starts an app of each framework

require "test_helper"
require "support/clients/curl"
require "support/serve_process"
require "digest"
require "net/http"

# Roda, Sinatra and Hanami with their defaults, started with `neverblock serve` and with `rackup -s neverblock`, on Rack
# 3 and, if they support it, on Rack 2. The apps are in test/apps, and have the same paths.
class FrameworksTest < Minitest::Test
  APPS = File.join(NeverBlockTest::ROOT, "test", "apps")
  RACK2 = File.join(APPS, "rack2.gemfile")
  FILE = Random.new(3).bytes(3 << 20).freeze

  FORM = {"Content-Type" => "application/x-www-form-urlencoded"}.freeze

  # The program of the current bundle.
  RACKUP = 'gem = Gem.loaded_specs["rackup"] ? "rackup" : "rack"; load Gem.bin_path(gem, "rackup")'

  # Rack 2 once per way, since a start takes seconds.
  SERVED = [["roda", 3], ["sinatra", 3], ["hanami", 3], ["roda", 2]].freeze
  BY_RACKUP = [["roda", 3], ["sinatra", 3], ["hanami", 3], ["sinatra", 2]].freeze

  SERVED.each do |framework, rack|
    define_method(:"test_#{framework}_on_rack_#{rack}_served") { serve(framework, rack, "-p", "0", file(framework)) }
  end

  BY_RACKUP.each do |framework, rack|
    define_method(:"test_#{framework}_on_rack_#{rack}_by_rackup") do
      serve(framework, rack, command: ["-e", RACKUP, "--", "-s", "neverblock", "-o", "127.0.0.1", "-p", "0", file(framework)])
    end
  end

  def test_a_unix_socket_asked_by_curl
    missing = NeverBlockTest::Clients::Curl.missing
    skip missing if missing
    Dir.mktmpdir("nb") do |folder|
      NeverBlockTest::ServeProcess.open("run ->(env) { [200, {}, [env['SERVER_NAME']]] }", "-b", "unix://#{folder}/s", "--bind", "tcp://127.0.0.1:0") do |served|
        assert_equal "unix://#{folder}/s", served.addresses.first
        assert_equal "127.0.0.1", NeverBlockTest::Clients::Curl.new(80, socket: "#{folder}/s").call("GET", "/").body
        assert_equal "127.0.0.1", NeverBlockTest::Clients::Curl.new(served.port).call("GET", "/").body
        served.stop(:INT)
        refute_path_exists "#{folder}/s"
      end
    end
  end

  private

  def file(framework) = File.join(APPS, framework, "config.ru")

  def serve(framework, rack, *arguments, command: nil)
    skip "the gems are known under bundle exec only" unless ENV["BUNDLE_GEMFILE"]
    skip "#{framework} is not among the gems here" unless Gem.loaded_specs.key?(framework)
    Dir.mktmpdir("nb") do |folder|
      File.binwrite("#{folder}/big", FILE)
      environment = {"PUBLIC" => folder, **((rack == 2) ? rack2 : {})}
      NeverBlockTest::ServeProcess.open("", *arguments, command:, environment:, gems: true) do |served|
        Net::HTTP.start("127.0.0.1", served.port, read_timeout: 30) { |http| visit(http, "hello from #{framework} on Rack #{rack}") }
        meet(served.port)
        served.stop
        assert_match(/info: stopped$/, served.errors)
      end
    end
  end

  def rack2
    skip "bin/setup has not installed Rack 2" unless File.exist?("#{RACK2}.lock")
    {"BUNDLE_GEMFILE" => RACK2, "BUNDLE_LOCKFILE" => nil, "BUNDLE_PATH" => File.join(NeverBlockTest::ROOT, "vendor", "bundle")}
  end

  # All requests on one connection.
  def visit(http, hello)
    assert_equal [200, hello], get(http, "/")
    assert_equal [404, "there is no /gone"], get(http, "/gone")
    assert_equal [500, "sorry: no"], get(http, "/fail")
    assert_equal [200, "piece 0\npiece 1\npiece 2\n"], get(http, "/stream")
    assert_equal [200, "you are \u00fc & co"], answer(http.post("/form", URI.encode_www_form(name: "\u00fc & co"), FORM))
    assert_includes [301, 302], http.get("/go").code.to_i
    assert_match(%r{/\z}, http.get("/go")["location"])
    assert_equal hello.bytesize.to_s, http.head("/")["content-length"]
    sessions(http)
    uploads(http)
    static_files(http)
  end

  def sessions(http)
    cookie = nil
    counts = Array.new(3) do
      response = http.get("/count", cookie ? {"Cookie" => cookie} : {})
      cookie = response["set-cookie"][/\A[^;]+/]
      response.body
    end
    assert_equal %w[1 2 3], counts
    assert_equal [200, "1"], get(http, "/count"), "without the cookie it is another session"
  end

  def uploads(http)
    [FILE.byteslice(0, 100), FILE].each do |bytes|
      request = Net::HTTP::Post.new("/upload")
      request.set_form([["file", bytes, {filename: "a.bin", content_type: "application/octet-stream"}]], "multipart/form-data")
      assert_equal [200, "#{bytes.bytesize} #{Digest::SHA256.hexdigest(bytes)}"], answer(http.request(request))
    end
  end

  def static_files(http)
    response = http.get("/static/big")
    assert_equal [200, FILE.bytesize.to_s, Digest::SHA256.hexdigest(FILE)], [response.code.to_i, response["content-length"], Digest::SHA256.hexdigest(response.body)]
    part = http.get("/static/big", {"Range" => "bytes=1000-70999"})
    assert_equal [206, FILE.byteslice(1_000, 70_000)], [part.code.to_i, part.body]
    assert_equal 304, http.get("/static/big", {"If-Modified-Since" => response["last-modified"]}).code.to_i
    assert_equal FILE.bytesize.to_s, http.head("/static/big")["content-length"]
  end

  # Two requests at once: the first waits for the second.
  def meet(port)
    guests = Array.new(2) { Thread.new { Net::HTTP.get(URI("http://127.0.0.1:#{port}/meet")) } }
    assert_equal %w[met met], guests.map(&:value)
  end

  def get(http, path) = answer(http.get(path))

  def answer(response) = [response.code.to_i, response.body.dup.force_encoding("UTF-8")]
end
