# frozen_string_literal: true

require "test_helper"
require "json"
require "neverblock/cache"
require "stringio"
require "tmpdir"
require "zlib"

# Lines of each format, as servers and frameworks write them, and what the report says of them.
class CacheTrafficLogsTest < Minitest::Test
  # nginx' combined format, Apache's with a virtual host in front, Rack's common logger (Puma) and our own.
  COMMON = {
    "nginx" => '203.0.113.9 - - [26/Nov/2026:20:36:19 +0000] "GET /a?x=1 HTTP/2.0" 200 512 "https://example.org/" "Mozilla/5.0 (X11; Linux x86_64)"',
    "nginx_with_more" => '203.0.113.9 - - [26/Nov/2026:20:36:19 +0000] "GET /a?x=1 HTTP/1.1" 200 512 "-" "curl/8" "198.51.100.1" 0.004 0.004 .',
    "apache_common" => '203.0.113.9 - - [26/Nov/2026:20:36:19 +0000] "GET /a?x=1 HTTP/1.1" 200 512',
    "apache_vhost_combined" => 'example.org:443 203.0.113.9 - - [26/Nov/2026:20:36:19 +0000] "GET /a?x=1 HTTP/1.1" 200 512 "-" "say \"hi\""',
    "puma" => '203.0.113.9 - - [26/Nov/2026:20:36:19 +0000] "GET /a?x=1 HTTP/1.1" 200 512 0.0123',
    "ipv6_in_another_zone" => '2001:db8::1 - - [26/Nov/2026:21:36:19 +0100] "GET /a?x=1 HTTP/1.1" 200 512',
    "the_url_as_a_proxy_has_it" => '203.0.113.9 - - [26/Nov/2026:20:36:19 +0000] "GET http://example.org/a?x=1 HTTP/1.1" 200 512'
  }.freeze

  COMMON.each do |name, line|
    define_method(:"test_common_format_of_#{name}") do
      read(line, line)
      assert_equal [2, 2, 1, 1, 1], figures
      assert_equal [1_795_725_379.0, 1024], [report.from, report.bytes[:gets]]
      assert_match %r{\A(example\.org:443)?/a\?x=1\z}, report.urls.first[:url]
    end
  end

  def test_our_own_server_s_formats
    require "neverblock/server/access_log"
    env = {"REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => "/a", "QUERY_STRING" => "x=\"1", "REMOTE_ADDR" => "203.0.113.9",
           "SERVER_PROTOCOL" => "HTTP/1.1", "HTTP_HOST" => "example.org", "HTTP_USER_AGENT" => "Mozilla"}
    %i[common json].each do |format|
      lines = +""
      log = NeverBlock::Server::AccessLog.new(lines, format:, clock: -> { Time.at(1_795_725_379).utc })
      3.times { log.call(env, 200, 512, 0.01) }
      read(lines)
      assert_equal [3, 3, 2, 2, 2], figures, format
      assert_equal [1_795_725_379.0, 1536], [report.from, report.bytes[:gets]], format
    end
    assert_equal 'example.org/a?x="1', report.urls.first[:url]
  end

  # A cache in front has known better than the status.
  def test_our_own_server_s_lines_with_a_cache
    require "neverblock/server/access_log"
    lines = +""
    log = NeverBlock::Server::AccessLog.new(lines, format: :json)
    env = {"REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => "/a", "QUERY_STRING" => "", "REMOTE_ADDR" => "203.0.113.9", "HTTP_HOST" => "example.org"}
    {hit: 500, bypass: 200}.each { |outcome, status| log.call(env.merge("neverblock.cache" => outcome), status, 512, 0.01) }
    read(lines)
    assert_equal [2, 1, {bypass: 1}], [report.gets, report.cacheable, report.reasons.to_h { |row| [row[:reason], row[:gets]] }]
  end

  # Each line is read twice, together with the URL that it is for.
  {
    "nginx" => ['{"time_local":"26/Nov/2026:20:36:19 +0000","remote_addr":"203.0.113.9","request":"GET /a HTTP/1.1","status": "200","body_bytes_sent":"512"}', "/a"],
    "nginx_by_parts" => ['{"time_iso8601":"2026-11-26T20:36:19+00:00","remote_addr":"203.0.113.9","request_method":"GET","request_uri":"/a","status":200,"body_bytes_sent":512}', "/a"],
    "seconds" => ['{"msec":1795725379.000,"remote_addr":"203.0.113.9","request":"GET /a HTTP/1.1","status":200,"bytes_sent":512}', "/a"],
    "caddy" => ['{"level":"info","ts":1795725379.0,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"203.0.113.9","proto":"HTTP/2.0",' \
      '"method":"GET","host":"example.org","uri":"/a","headers":{"User-Agent":["curl"]}},"user_id":"","status":200,"size":512,"resp_headers":{"Server":["Caddy"]}}', "example.org/a"],
    "lograge_with_ruby_s_logger" => ['I, [2026-11-26T20:36:19.000000 #4242]  INFO -- : {"method":"GET","path":"/a","format":"html","status":200,"remote_ip":"203.0.113.9","bytes":512,"time":"2026-11-26T20:36:19Z"}', "/a"],
    "a_container" => ['{"log":"203.0.113.9 - - [26/Nov/2026:20:36:19 +0000] \"GET /a HTTP/1.1\" 200 512\n","stream":"stdout","time":"2026-11-26T20:36:20.1Z"}', "/a"]
  }.each do |name, (line, url)|
    define_method(:"test_json_of_#{name}") do
      read(line, line)
      assert_equal [2, 2, 1, 1, 1], figures
      assert_equal [1_795_725_379.0, 1024, url], [report.from, report.bytes[:gets], report.urls.first[:url]]
    end
  end

  {
    "lograge" => "I, [2026-11-26T20:36:19.000000 #7]  INFO -- : method=GET path=/a format=html controller=A action=show status=200 duration=5.1 view=1.0 ip=203.0.113.9 bytes=512",
    "heroku" => '2026-11-26T20:36:19.000000+00:00 heroku[router]: at=info method=GET path="/a" host=example.org request_id=1-2 fwd="203.0.113.9" dyno=web.1 connect=0ms service=18ms status=200 bytes=512 protocol=https'
  }.each do |name, line|
    define_method(:"test_key_and_value_of_#{name}") do
      read(line, line)
      assert_equal [2, 2, 1, 1, 1], figures
      assert_equal [1_795_725_379.0, 1024], [report.from, report.bytes[:gets]]
    end
  end

  def test_rails_log_with_ids_of_requests
    read(<<~LOG)
      I, [2026-11-26T20:36:19.100000 #7]  INFO -- : [a1] Started GET "/a" for 203.0.113.9 at 2026-11-26 20:36:19 +0000
      I, [2026-11-26T20:36:19.110000 #7]  INFO -- : [b2] Started GET "/b" for 203.0.113.9 at 2026-11-26 20:36:19 +0000
      I, [2026-11-26T20:36:19.120000 #7]  INFO -- : [a1] Processing by PagesController#show as HTML
      D, [2026-11-26T20:36:19.130000 #7] DEBUG -- : [a1]   Page Load (0.2ms)  SELECT "pages".* FROM "pages"
      I, [2026-11-26T20:36:19.200000 #7]  INFO -- : [b2] Completed 404 Not Found in 12ms (ActiveRecord: 0.0ms)
      I, [2026-11-26T20:36:19.210000 #7]  INFO -- : [a1] Completed 200 OK in 110ms (Views: 90.1ms | ActiveRecord: 0.2ms)


      I, [2026-11-26T20:36:21.100000 #7]  INFO -- : [c3] Started GET "/a" for 203.0.113.9 at 2026-11-26 20:36:21 +0000
      I, [2026-11-26T20:36:21.200000 #7]  INFO -- : [c3] Completed 304 Not Modified in 9ms
    LOG
    assert_equal [3, 2, 1, 1, 0], figures
    assert_equal 0, @logs.unknown
    assert_equal "/a", report.urls.first[:url]
  end

  def test_rails_log_without_ids
    read(<<~LOG)
      Started GET "/a?page=2" for ::1 at 2026-11-26 20:36:19 +0000
      Processing by PagesController#show as HTML
        Rendered pages/show.html.erb (Duration: 0.3ms)
      Completed 200 OK in 12ms (Views: 3.1ms)
      Started GET "/b" for ::1 at 2026-11-26 20:36:20 +0000
      ActionController::RoutingError (No route matches [GET] "/b"):
      Started GET "/a?page=2" for ::1 at 2026-11-26 20:36:20 +0000
      Completed 200 OK in 12ms (Views: 3.1ms)
      Started POST "/a" for ::1 at 2026-11-26 20:36:21 +0000
    LOG
    assert_equal [3, 2, 1, 1, 0], figures
    assert_includes report.notes, "2 requests of Rails' log had no line for the end."
  end

  def test_formats_change_in_one_file
    read(COMMON["nginx"], COMMON["puma"], '{"method":"GET","path":"/a","query":"x=1","status":200}', "method=GET path=/a?x=1 status=200", "nonsense \xFF\e[2J")
    assert_equal [4, 4, 3], figures.first(3)
    assert_includes report.notes, '1 of 5 lines is in no known format. The first one, standard input:5: nonsense \xFF\x1B[2J'
    assert_includes report.notes, "2 requests had no time: it counts as that of the one before."
  end

  # ---- what can be cached ----

  {
    {status: 404} => [false, :status],
    {status: 206} => [false, :status],
    {user: "alice"} => [false, :authorization],
    {url: "/a?token=1"} => [false, :token],
    {url: "/a?b=1&X-Amz-Signature=ab"} => [false, :token],
    {url: "/a/../b"} => [false, :key],
    {url: "/a?tokens=1&sort=1"} => [true, nil],
    {status: 304} => [true, nil],
    {cache_control: "-"} => [false, :no_freshness],
    {cache_control: "no-store"} => [false, :no_store],
    {cache_control: "max-age=60; private"} => [false, :no_store],
    {cache_control: "private, max-age=60"} => [:private, :private],
    {cache_control: "max-age=0, private, must-revalidate"} => [false, :private],
    {cache_control: "no-cache"} => [false, :no_cache],
    {cache_control: "public, max-age=0"} => [false, :no_freshness],
    {cache_control: "public, max-age=60"} => [true, nil],
    {cache_control: "s-maxage=60, max-age=0"} => [true, nil],
    {cache_control: "private", cache_status: "HIT"} => [true, nil],
    {cache_status: "MISS"} => [true, nil],
    {cache_status: "BYPASS"} => [false, :bypass],
    {cache_status: "Other; fwd=miss; stored, Edge; fwd=bypass"} => [true, nil],
    {cache_status: "Edge; fwd=bypass"} => [false, :bypass],
    {cache_status: "Edge; fwd=uri-miss; stored-not"} => [true, nil]
  }.each do |told, (cacheable, reason)|
    define_method(:"test_judges_#{told.map { |pair| pair.join("_") }.join("_").gsub(/\W+/, "_")}") do
      fields = {url: "/a", status: 200, user: "-"}.merge(told)
      line = JSON.generate({time: "2026-11-26T20:36:19Z", method: "GET", path: fields[:url], status: fields[:status], remote_user: fields[:user],
                            client: "a", **fields.slice(:cache_control, :cache_status)})
      read(line)
      expected = {true => [1, 0], :private => [0, 1], false => [0, 0]}[cacheable]
      assert_equal expected, [report.shared, report.browser_only]
      assert_equal [*reason], report.reasons.map { |row| row[:reason] }
    end
  end

  def test_the_lifetime_of_the_log
    line = '{"time":"2026-11-26T20:36:%s","method":"GET","path":"/a","status":200,"cache_control":"max-age=5"}'
    read(*%w[01 05 07 08].map { |second| format(line, "#{second}Z") })
    assert_equal [4, 4, 2], figures.first(3)
    assert_equal 0, report.estimated
  end

  def test_a_format_of_one_s_own
    @options = {format: '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "${http_user_agent}" "$sent_http_cache_control" $upstream_cache_status'}
    read('203.0.113.9 - - [26/Nov/2026:20:36:19 +0000] "GET /a HTTP/1.1" 200 512 "Mozilla" "private" -',
      '203.0.113.9 - - [26/Nov/2026:20:36:19 +0000] "GET /a HTTP/1.1" 200 512 "Mozilla" "max-age=60" MISS',
      '203.0.113.9 - - [26/Nov/2026:20:36:19 +0000] "GET /a HTTP/1.1" 200 512 "Mozilla" "-" HIT', COMMON["nginx"])
    assert_equal [4, 3, 1], figures.first(3)
    assert_equal 1, report.estimated
  end

  def test_refuses_formats_that_tell_nothing
    {"$status" => /has neither \$request, nor/, "$request$status" => /nothing separates \$request from \$status/}.each do |format, message|
      assert_match message, assert_raises(NeverBlock::ConfigurationError) { logs(format:) }.message
    end
    assert_match(/\Aonly: "x" is not a list/, assert_raises(NeverBlock::ConfigurationError) { logs(only: "x") }.message)
  end

  def test_only_and_ignored_parameters
    @options = {only: ["/shop", "/blog/"], ignore_params: ["utm_source"]}
    read(*["/shop?utm_source=a", "/shop?utm_source=b", "/blog", "/blog/1", "/admin", "/shop?id=1&utm_source=c"].map { |url| COMMON["puma"].sub("/a?x=1", url) })
    assert_equal [4, 4, 1], figures.first(3)
    assert_equal "/shop", report.urls.first[:url]
  end

  # ---- files ----

  def test_files_are_read_in_the_order_of_their_requests
    folder do
      File.write("new.log", line_at("20:40:00"))
      Zlib::GzipWriter.open("old.log.gz") { |file| file.write("nonsense\n#{line_at("20:30:00")}") }
      File.binwrite("twice.gz", Zlib.gzip(line_at("20:32:00")) + Zlib.gzip(line_at("20:33:00")))
      @logs = logs.read("new.log", "twice.gz", "old.log.gz")
    end
    assert_equal [4, 4, 3, 3], figures.first(4)
    assert_equal 600.0, report.to - report.from
    assert_includes report.notes, "1 of 5 lines is in no known format. The first one, old.log.gz:1: nonsense"
  end

  def test_a_damaged_file
    folder do
      lines = Array.new(20_000) { |number| line_at("20:30:00").sub("/a", "/#{number * 7919 % 10_007}") }.join
      File.binwrite("a.gz", Zlib.gzip(lines).byteslice(0..-2_000))
      @logs = logs.read("a.gz")
    end
    assert_operator @logs.requests, :>, 1_000
    assert_match(/\Aa\.gz is damaged after line \d+: /, report.notes.find { |note| note.include?("damaged") })
  end

  def test_a_file_that_can_not_be_read
    ["/nowhere/a.log", Dir.tmpdir].each do |path|
      error = assert_raises(NeverBlock::ConfigurationError) { logs.read(path) }
      assert_match(/\A#{path} can't be read: (No such file or directory|Is a directory)\z/, error.message)
    end
  end

  def test_a_pipe_with_gzip
    reader, writer = IO.pipe
    writer.binmode.write(Zlib.gzip(line_at("20:30:00")))
    writer.close
    @logs = logs.read(reader)
    assert_equal [1, 1], figures.first(2)
  end

  def test_long_lines_are_skipped
    long = COMMON["puma"].sub("x=1", "x=#{"1" * 200_000}")
    read(long, COMMON["puma"], "x" * (64 << 10), COMMON["puma"])
    assert_equal [2, 2, 1], figures.first(3)
    assert_includes report.notes, "2 lines of more than 64 KiB skipped."
  end

  def test_the_progress_on_a_terminal
    told = StringIO.new
    read(*Array.new(9_000, COMMON["puma"]), progress: told)
    assert told.string.end_with?("\r\e[K")
  end

  # ---- anything ----

  def test_random_bytes
    random = Random.new(Minitest.seed)
    samples = [*COMMON.values, '{"method":"GET","path":"/a","status":200}', 'Started GET "/a" for ::1 at 2026-11-26 20:36:19 +0000', "Completed 200 OK in 12ms",
      'method=GET path="/a" status=200 time=1', "\x1F\x8B"]
    lines = Array.new(3_000) do
      line = (random.rand < 0.2) ? random.bytes(random.rand(200)) : samples.sample(random:).b
      random.rand(4).times { line.setbyte(random.rand(line.bytesize), random.rand(256)) unless line.empty? }
      line = line.byteslice(random.rand(line.bytesize + 1), 300) if random.rand < 0.2
      line
    end
    read(*lines)
    text = report.to_s
    assert_predicate text, :ascii_only?
    refute_match(/[\x00-\x09\x0b-\x1f]/, text)
    assert JSON.generate(report.to_h)
    assert_operator @logs.requests + @logs.unknown, :<=, @logs.lines + 5_000
  end

  def test_lines_that_cost_no_time
    # Quadratic expressions would take minutes; the suite's own limit ends them.
    ["Started " * 8_000, "\"" * 60_000, "a=" * 30_000, "method=status=" + "\\\"" * 30_000, "[" * 60_000, "{\"" * 30_000, "1 " * 30_000, "Completed 200 " * 4_000,
      "#{"a" * 30_000} - - [" * 2].each do |line|
      read(line)
      assert_equal 0, @logs.requests
    end
  end

  private

  def logs(...) = NeverBlock::Cache::Traffic::Logs.new(...)

  def read(*lines, **options)
    @logs = logs(NeverBlock::Cache::Traffic.new, **@options.to_h, **options).read(StringIO.new(lines.map(&:b).join("\n").b))
  end

  def report = @logs.report

  def figures = [report.gets, report.cacheable, report.repeats, report.same_client, report.bytes ? report.bytes[:shared_cache] / 512 : 0]

  def line_at(time) = "203.0.113.9 - - [26/Nov/2026:#{time} +0000] \"GET /a HTTP/1.1\" 200 512\n"

  def folder(&) = Dir.mktmpdir("nb") { |folder| Dir.chdir(folder, &) }
end
