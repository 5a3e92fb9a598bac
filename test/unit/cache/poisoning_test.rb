# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/cached_app"

# Cache poisoning (a response that one client has made reaches others) and cache deception (a page of one client is
# stored where others find it). The app of these tests is as careless as apps can be: its pages show all that a request
# says, and each says that it may be cached.
class CachePoisoningTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::CachedApp

  EVIL = "evil.example"
  HEADERS = %w[
    HTTP_X_FORWARDED_HOST HTTP_X_FORWARDED_PROTO HTTP_X_FORWARDED_SCHEME HTTP_X_FORWARDED_PORT HTTP_X_FORWARDED_FOR
    HTTP_X_FORWARDED_PREFIX HTTP_X_FORWARDED_SERVER HTTP_X_HOST HTTP_FORWARDED HTTP_X_ORIGINAL_URL HTTP_X_REWRITE_URL
    HTTP_X_HTTP_METHOD_OVERRIDE HTTP_X_METHOD_OVERRIDE HTTP_USER_AGENT HTTP_REFERER HTTP_ORIGIN HTTP_X_REAL_IP
    HTTP_TRUE_CLIENT_IP HTTP_VIA HTTP_X_REQUEST_ID HTTP_TRACEPARENT HTTP_X_ANYTHING HTTP_IF_NONE_MATCH HTTP_RANGE
    HTTP_CACHE_CONTROL HTTP_PRAGMA HTTP_TE HTTP_MAX_FORWARDS HTTP_X_TIMER HTTP_SEC_FETCH_SITE HTTP_AUTHORIZATION
    HTTP_COOKIE HTTP_X_CSRF_TOKEN HTTP_X_API_KEY HTTP_TRANSFER_ENCODING HTTP_UPGRADE HTTP_EXPECT HTTP_CONTENT_TYPE
  ].freeze

  # The attacker goes first.
  HEADERS.each do |name|
    define_method(:"test_others_do_not_get_what_a_client_says_in_#{name.delete_prefix("HTTP_").downcase}") do
      careless
      get("/page", name => EVIL)
      page = get("/page").body
      refute_includes page, EVIL
      assert_equal page, get("/page").body, "what is for everybody is stored"
    end
  end

  # The attacker makes them wait.
  HEADERS.each do |name|
    define_method(:"test_those_that_wait_do_not_get_what_a_client_says_in_#{name.delete_prefix("HTTP_").downcase}") do
      careless { wait_here }
      pages = together(6) { |number| [number, get("/page", **(number.zero? ? {name => EVIL} : {})).body] }
      pages.each { |number, page| refute_includes page, EVIL unless number.zero? }
    end
  end

  # A page of each user, and a URL that looks like that of a file for everybody.
  def test_deception
    cached { |env| ok("account of #{env["HTTP_COOKIE"]}", "cache-control" => "public, max-age=60") }
    %w[/account/x.css /account;x.css /account%2fx.css /account/%2e%2e/x.css /account/..%2fx.css /account//x.js /account%00.css /account?x.css].each do |path|
      assert_equal "account of user=1", get(path, "HTTP_COOKIE" => "user=1").body
      refute_includes get(path).body, "user=1", path
    end
  end

  # Each spelling may be another page for the app.
  def test_urls_that_differ_for_the_app_have_no_common_response
    careless
    %w[/a/b /a//b /a%2fb /a%2Fb /a/b/ /a;x=1/b /a/b;x=1 /A/b /a\\b].each { |path| assert_includes get(path).body, "path #{path}", path }
  end

  def test_parameter_cloaking
    careless
    ["q=1;q=#{EVIL}", "q=1&q=#{EVIL}", "q=1&%71=#{EVIL}", "utm_content=1;q=#{EVIL}", "q[]=1&q=#{EVIL}", "q=1%26q=#{EVIL}"].each do |query|
      get("/page?#{query}")
      refute_includes get("/page?q=1").body, EVIL
    end
  end

  def test_parameters_that_are_ignored_do_not_reach_others
    careless(ignore_params: ["utm_source"])
    get("/page?q=1&utm_source=#{EVIL}")
    refute_includes get("/page?q=1").body, EVIL
    refute_includes get("/page?q=1&utm_source=x").body, EVIL
  end

  def test_a_get_with_a_body
    careless
    get("/page", "CONTENT_LENGTH" => "5", "rack.input" => StringIO.new("q=bad"))
    refute_includes get("/page").body, "q=bad"
  end

  def test_the_case_of_a_host
    careless
    assert_includes get("/page", "HTTP_HOST" => "EXAMPLE.org:80").body, "EXAMPLE.org:80"
    refute_includes get("/page").body, "EXAMPLE"
    ["example.org#{EVIL}", "example.org:80@#{EVIL}", "example.org, #{EVIL}", "example.org #{EVIL}", "example.org/#{EVIL}"].each { |host| get("/page", "HTTP_HOST" => host) }
    refute_includes get("/page").body, EVIL
  end

  # A header that is too long makes an app or server refuse the request: the refusal must not be everybody's.
  def test_errors_are_not_stored
    [*400..431, 500, 502, 503, 504].each do |status|
      cached { |env| env.key?("HTTP_X_LONG") ? ok("refused", :status => status, "cache-control" => "public, max-age=60") : ok("page", "cache-control" => "max-age=60") }
      get("/page", "HTTP_X_LONG" => "x" * 20_000)
      assert_equal "page", get("/page").body, status.to_s
    end
  end

  def test_hop_by_hop_headers_of_the_response
    cached { |_| ok("page", "cache-control" => "max-age=60", "connection" => "x-secret", "x-secret" => "1", "keep-alive" => "5") }
    get("/page")
    assert_empty get("/page").headers.keys & %w[connection keep-alive x-secret]
  end

  def test_a_request_that_names_headers_as_hop_by_hop
    careless
    get("/page", "HTTP_CONNECTION" => "close, x-anything", "HTTP_X_ANYTHING" => EVIL)
    refute_includes get("/page").body, EVIL
  end

  def test_splitting
    cached { |_| ok("page", "cache-control" => "max-age=60", "x-name" => "a\r\nset-cookie: id=1") }
    2.times { get("/page") }
    assert_equal 2, @calls
  end

  # The worst mistake: users with the same URL, all at once, and an app that says that everything is public.
  def test_no_page_of_a_user_reaches_another_one
    cached { |env| ok("page of #{env["HTTP_COOKIE"]}", "cache-control" => "public, max-age=60").tap { wait_here } }
    pages = together(50) { |number| [number, get("/account", "HTTP_COOKIE" => "user=#{number}").body] }
    pages.each { |number, page| assert_equal "page of user=#{number}", page }
    assert_equal "page of ", get("/account").body
  end

  private

  # Shows all that the request says.
  def careless(**options)
    cached(**options) do |env|
      yield if block_given?
      words = env.filter_map { |name, value| "#{name}=#{value}" if name.start_with?("HTTP_", "REMOTE", "CONTENT") }
      ok("path #{env["PATH_INFO"]} query #{env["QUERY_STRING"]} body #{env["rack.input"]&.read} #{words.join(" ")}", "cache-control" => "public, max-age=60")
    end
  end
end
