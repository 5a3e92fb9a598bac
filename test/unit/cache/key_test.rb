# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"

# What the key of a request consists of, and which requests have none.
class CacheKeyTest < Minitest::Test
  Key = NeverBlock::Cache::Key
  BASE = {"rack.url_scheme" => "https", "HTTP_HOST" => "example.org", "SCRIPT_NAME" => "", "PATH_INFO" => "/", "QUERY_STRING" => ""}.freeze

  def key(path = "/", query = "", script: "", **) = Key.of({**BASE, "SCRIPT_NAME" => script, "PATH_INFO" => path, "QUERY_STRING" => query}, **)

  PATHS = {
    "/" => "/", "" => "/", "/a" => "/a", "/a/" => "/a/", "//a" => "//a", "/a//b" => "/a//b", "/A" => "/A",
    "/a;v=1" => "/a;v=1", "/a;x.css" => "/a;x.css", "/account/x.css" => "/account/x.css", "/a.b..c" => "/a.b..c",
    "/.well-known/x" => "/.well-known/x", "/..." => "/...", "/..a" => "/..a", "/a:b@c!$&'()*+,=~-_" => "/a:b@c!$&'()*+,=~-_",
    "/%61%5a%30%2D%2e%5F%7e" => "/aZ0-._~", "/%2fa%2Fb" => "/%2Fa%2Fb", "/caf%c3%a9" => "/caf%C3%A9", "/%ff" => "/%FF",
    "/a%3bb" => "/a%3Bb", "/a%3Fb" => "/a%3Fb", "/a%23b" => "/a%23b", "/%2561" => "/%2561", "/%20" => "/%20", "/a%25" => "/a%25",
    "/%252e%252e/" => "/%252e%252e/"
  }.freeze

  def test_paths
    PATHS.each { |path, normal| assert_equal "https://example.org#{normal}", key(path), path }
  end

  def test_paths_without_a_key
    [
      "/.", "/..", "/a/.", "/a/..", "/./a", "/../a", "/a/../b", "/%2e", "/%2E%2e/a", "/.%2e/a", "/a/%2e./b", "/..;/a", "/.;x/a",
      "/a%2f..%2fb", "/a%2F.%2F", "/%2e%2e%2fa", "/a%2f%2e%2e", "/a\\b", "/a%5cb", "/..%5c", "/%00", "/a%0d%0aX:y", "/%1f", "/%7F",
      "/%", "/%a", "/%zz", "/a%2", "/a b", "/a\tb", "/a\nb", "/a\0b", "/é", "/\xff", "/a?b", "/a#b", "/a\"b", "/a<b", "/a>b", "/a|b",
      "/a^b", "/a`b", "/a{b}", "/a[b]", "a", "*", "http://evil.org/", "/#{"a" * 9_000}", "/" + "%61" * 9_000
    ].each { |path| assert_nil key(path), path.inspect[0, 60] }
  end

  def test_the_script_name_is_a_part_of_the_path
    assert_equal "https://example.org/app/a", key("/a", script: "/app")
    assert_equal "https://example.org/app", key("", script: "/app")
    assert_equal "https://example.org/app/", key("/", script: "/app")
    assert_nil key("/../a", script: "/app")
    assert_nil key("./a", script: "/.")
  end

  def test_missing_entries_are_empty
    assert_equal "https://example.org/", Key.of(BASE.slice("rack.url_scheme", "HTTP_HOST"))
    assert_nil Key.of({})
  end

  def test_a_query_is_verbatim
    ["a=1", "b=2&a=1", "a=1&a=2", "a=1;b=2", "%61=%2f", "a=%zz", "?", "a=b=c", "&&", "a[]=1&a[]=2", "a=|<>\"{}^`\\", "utm_source=x"].each do |query|
      assert_equal "https://example.org/?#{query}", key("/", query), query
    end
    assert_equal key("/"), key("/", nil)
    assert_equal "https://example.org/", key("/", "")
  end

  def test_queries_without_a_key
    ["a b", "a\tb", "a\nb", "a#b", "é", "\xff", "a\0", "a" * 9_000].each { |query| assert_nil key("/", query), query.inspect[0, 60] }
  end

  # Query => what is left of it if `utm` and `é` are ignored.
  IGNORED = {
    "utm=1" => "", "utm" => "", "utm=" => "", "utm=1&a=2" => "a=2", "a=2&utm=1" => "a=2", "a=1&utm=1&b=2&utm=3" => "a=1&b=2",
    "u%74m=1&a=2" => "a=2", "%C3%A9=1&a=2" => "a=2", "a=utm" => "a=utm", "a=1&&utm=2" => "a=1&",
    "UTM=1" => "UTM=1", "utm[]=1" => "utm[]=1", "utm[a]=1" => "utm[a]=1", "utm%5B%5D=1" => "utm%5B%5D=1", "[utm]=1" => "[utm]=1",
    "utm+=1" => "utm+=1", "+utm=1" => "+utm=1", "utm%00=1" => "utm%00=1", "utm%3D1" => "utm%3D1", "utm%26a=1" => "utm%26a=1",
    # Parsers read these in different ways: nothing is ignored.
    "utm=1;a=2" => "utm=1;a=2", "a=1;utm=2&utm=3" => "a=1;utm=2&utm=3", "utm=1&%zz=2" => "utm=1&%zz=2", "utm=1&a%=2" => "utm=1&a%=2"
  }.freeze

  def test_ignored_parameters
    IGNORED.each do |query, left|
      assert_equal "https://example.org/#{"?#{left}" unless left.empty?}", key("/", query, ignore_params: ["utm", "é"]), query
    end
  end

  # Query => the sorted one.
  SORTED = {
    "b=2&a=1" => "a=1&b=2", "c&b=&a=1" => "a=1&b=&c", "b=%zz&a=1" => "a=1&b=%zz", "b[x]=1&a[y]=2" => "a[y]=2&b[x]=1",
    # The order of these may matter: they stay.
    "a=2&a=1" => "a=2&a=1", "b=1&a=2&a=1" => "b=1&a=2&a=1", "b=1&a[]=2&a[]=1" => "b=1&a[]=2&a[]=1", "b=1&a[x]=2&a=1" => "b=1&a[x]=2&a=1",
    "b=1&%61=2&a=1" => "b=1&%61=2&a=1", "b=1&a%5B%5D=2&a=1" => "b=1&a%5B%5D=2&a=1", "b=1&[a]=2&a=1" => "b=1&[a]=2&a=1",
    "b=1;a=2" => "b=1;a=2", "b=1&%zz=2&a=1" => "b=1&%zz=2&a=1", "b=1&&a=2&" => "b=1&&a=2&"
  }.freeze

  def test_sorted_queries
    SORTED.each { |query, sorted| assert_equal "https://example.org/?#{sorted}", key("/", query, sort_query: true), query }
  end

  def test_a_query_of_very_many_pairs_stays
    query = (1..600).map { |number| "k#{1000 - number}" }.join("&")
    assert_equal "https://example.org/?#{query}", key("/", query, sort_query: true, ignore_params: ["k500"])
  end

  def test_ignored_and_sorted
    assert_equal key("/", "a=1&b=2"), key("/", "b=2&utm=5&a=1", ignore_params: ["utm"], sort_query: true)
  end

  def test_the_length_is_bounded
    assert_nil key("/#{"a" * 5_000}", "b" * 5_000)
    assert key("/#{"a" * 5_000}", "b" * 2_000)
  end

  def test_keys_are_frozen_texts_that_are_equal_whatever_their_encoding
    assert_predicate key("/a", "b"), :frozen?
    assert_equal key("/a", "b=%C3"), key("/a".b, "b=%C3".encode("US-ASCII"))
    assert_equal key("/a").hash, key("/a".b).hash
  end

  # Each pair of these is two resources for some app.
  def test_what_an_app_may_distinguish_has_keys_of_its_own
    keys = [key("/a"), key("/a/"), key("//a"), key("/A"), key("/a;b"), key("/%2Fa"), key("/a%2Fb"), key("/a/b"), key("/a", "x"),
      key("/a", "X"), key("/a", "x="), key("/a", "%78"), key("/a%3Fx"), key("/a.css"), key("/a%00"), key("/a", "x&y"), key("/a", "y&x")]
    assert_equal keys.size, keys.uniq.size
  end

  def test_proxies
    forwarded = {**BASE, "HTTP_X_FORWARDED_HOST" => "evil.org", "HTTP_X_FORWARDED_PROTO" => "http"}
    assert_equal "https://example.org/", Key.of(forwarded)
    assert_equal "http://evil.org/", Key.of(forwarded, trusted: true)
    assert_equal "http://example.org/", Key.of(BASE, scheme: "http")
  end

  def test_authority
    assert_equal "example.org:8443", Key.authority({**BASE, "HTTP_HOST" => "EXAMPLE.org:8443"})
    assert_equal "[::1]", Key.authority({**BASE, "HTTP_HOST" => "[::1]:443"})
    assert_nil Key.authority({**BASE, "HTTP_HOST" => "a b"})
  end

  def test_plain
    ["/", "/a/b;c=1", "/%2F", "//", "/~a"].each { |path| assert Key.plain?({**BASE, "PATH_INFO" => path}), path }
    ["/%61", "/%2f", "/a/../b", "/é", "/\\"].each { |path| refute Key.plain?({**BASE, "PATH_INFO" => path}), path }
    refute Key.plain?({**BASE, "HTTP_HOST" => "example.org:443"})
    assert Key.plain?({**BASE, "PATH_INFO" => ""})
  end

  # Location => the rest of the key, for the key https://example.org/dir/page?q=1.
  LOCATIONS = {
    "/a" => "/a", "/a?b=1" => "/a?b=1", "/a#x" => "/a", "" => "/dir/page?q=1", "#x" => "/dir/page?q=1", "?r=2" => "/dir/page?r=2",
    "?" => "/dir/page", "other" => "/dir/other", "./other" => "/dir/other", "../other" => "/other", "../../../x" => "/x", "." => "/dir/",
    ".." => "/", "a/b/../c/./d" => "/dir/a/c/d", "a/.." => "/dir/", "/%7ea" => "/~a", "//example.org/a" => "/a", "//example.org" => "/",
    "//example.org?x" => "/?x", "https://example.org/a" => "/a", "HTTPS://EXAMPLE.ORG:443/a" => "/a", "https://example.org" => "/",
    "https://example.org./a" => "/a", "/a/../b" => "/b"
  }.freeze

  def test_keys_of_locations
    base = key("/dir/page", "q=1")
    LOCATIONS.each { |location, rest| assert_equal "https://example.org#{rest}", Key.of_location(base, location), location }
  end

  def test_locations_of_other_origins_and_invalid_ones_have_no_key
    base = key("/dir/page", "q=1")
    [nil, ["/a"], "http://example.org/a", "https://example.org:444/a", "https://evil.org/a", "//evil.org/a", "https://user@example.org/a",
      "https:a", "https:/a", "javascript:alert(1)", "a:b", "///a", "https:///a", "/a b", "/é", "/\\a", "/a\r\nb", "/%", "/%2e%2e/a", "/\xff",
      "//example.org\\@evil.org/", "/#{"a" * 9_000}"].each { |location| assert_nil Key.of_location(base, location), location.inspect[0, 60] }
    assert_nil Key.of_location("nonsense", "/a")
  end

  def test_locations_follow_the_options
    assert_equal "https://example.org/a?a=1&b=2", Key.of_location(key("/"), "/a?b=2&utm=1&a=1", ignore_params: ["utm"], sort_query: true)
  end
end
