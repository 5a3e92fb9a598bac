# frozen_string_literal: true

require "test_helper"
require "fileutils"
require "tmpdir"
require "rack/mock_request"
require "neverblock/release_assets"
require "support/virtual_time"

# Assets of other releases, in real folders.
class ReleaseAssetsTest < Minitest::Test
  include NeverBlockTest::VirtualTime

  DIGEST = "4f2a91c0"
  LONG = "0123456789abcdef" * 4

  def setup
    @folder = File.realpath(Dir.mktmpdir("neverblock-assets"))
    @asked = 0
  end

  def teardown = FileUtils.remove_entry(@folder)

  def test_an_asset_of_another_release_is_served
    write("1", "assets/app-#{DIGEST}.css", "old")
    response = get("/assets/app-#{DIGEST}.css")
    assert_equal [200, "old", "text/css"], [response.status, response.body, response["content-type"]]
    assert_equal "public, max-age=31536000, immutable", response["cache-control"]
    assert_equal 0, @asked
  end

  def test_the_forms_of_names
    names = ["logo-#{DIGEST}.svg", "app-#{LONG}.js", "app.js-#{LONG}.map", "a/b/c-#{DIGEST}.digested.js", "@hotwired/turbo_rails-#{DIGEST}.js.map", "x-0a1b2c3.woff2"]
    names.each { |name| write("1", "assets/#{name}", name) }
    assert_equal names, names.map { |name| get("/assets/#{name}").body }
  end

  def test_what_has_no_digest_is_left_to_the_app
    %w[app.css app-4f2a91.css app-4F2A91C0.css app-4f2a91c0 -.css manifest.json .app-4f2a91c0.css .hidden/app-4f2a91c0.css app-4f2a91c0.css.
      app-4f2a91g0.css].each do |name|
      write("1", "assets/#{name}", "old")
      assert_equal "of the app", get("/assets/#{name}").body, name
    end
  end

  def test_no_path_leads_out_of_the_folder
    write("1", "assets/a/app-#{DIGEST}.css", "old")
    write("1", "secret-#{DIGEST}.key", "secret")
    FileUtils.mkdir_p(File.join(@folder, "outside"))
    File.write(File.join(@folder, "outside", "secret-#{DIGEST}.key"), "secret")
    ["/assets/../secret-#{DIGEST}.key", "/assets/%2e%2e/secret-#{DIGEST}.key", "/assets/a/../../secret-#{DIGEST}.key", "/assets//secret-#{DIGEST}.key",
      "/assets/..%2fsecret-#{DIGEST}.key", "/assets/a\\..\\secret-#{DIGEST}.key", "/assets/a/app-#{DIGEST}.css\0", "/assets/a/app-#{DIGEST}.css\n",
      "/assetssecret-#{DIGEST}.key", "/secret-#{DIGEST}.key", "/assets/\xff-#{DIGEST}.css"].each do |path|
      assert_equal "of the app", call("PATH_INFO" => path).body, path.inspect
    end
  end

  def test_links_stay_inside_of_the_release
    write("1", "assets/app-#{DIGEST}.css", "old")
    write("2", "other-#{DIGEST}.css", "of another release")
    secret = File.join(@folder, "secret")
    File.write(secret, "secret")
    age(secret)
    link("1", "assets/inside-#{DIGEST}.css", "app-#{DIGEST}.css")
    link("1", "assets/outside-#{DIGEST}.css", secret)
    link("1", "assets/beside-#{DIGEST}.css", "../../../2/public/other-#{DIGEST}.css")
    link("1", "assets/folder", @folder)
    assert_equal "old", get("/assets/inside-#{DIGEST}.css").body
    ["outside-#{DIGEST}.css", "beside-#{DIGEST}.css", "folder/secret-#{DIGEST}.css"].each { |name| assert_equal "of the app", get("/assets/#{name}").body }
  end

  def test_a_folder_or_pipe_is_no_file
    FileUtils.mkdir_p(place("1", "assets/app-#{DIGEST}.css"))
    File.mkfifo(place("1", "assets/pipe-#{DIGEST}.css"))
    assert_equal ["of the app"] * 2, %w[app pipe].map { |name| get("/assets/#{name}-#{DIGEST}.css").body }
  end

  def test_what_the_current_release_has_is_left_to_the_app
    write("1", "assets/app-#{DIGEST}.css", "old")
    write("2", "assets/app-#{DIGEST}.css", "current")
    assert_equal "of the app", get("/assets/app-#{DIGEST}.css", current: File.dirname(place("2", "x"))).body
    File.symlink(File.join(@folder, "2"), File.join(@folder, "current"))
    assert_equal "of the app", get("/assets/app-#{DIGEST}.css", current: File.join(@folder, "current", "public")).body
  end

  def test_the_newest_releases_are_looked_at_first_and_no_more_than_told
    4.times { |number| write(number.to_s, "assets/app-#{DIGEST}.css", number.to_s, age: 100 - number) }
    write("0", "assets/old-#{DIGEST}.css", "0", age: 100)
    assert_equal "3", get("/assets/app-#{DIGEST}.css").body
    assert_equal "of the app", get("/assets/old-#{DIGEST}.css", keep: 3).body
    assert_equal "0", get("/assets/old-#{DIGEST}.css", keep: 4).body
  end

  def test_other_methods_and_paths_are_the_app_s
    write("1", "assets/app-#{DIGEST}.css", "old")
    write("1", "packs/app-#{DIGEST}.css", "old")
    assert_equal "of the app", call("REQUEST_METHOD" => "POST", "PATH_INFO" => "/assets/app-#{DIGEST}.css").body
    assert_equal "of the app", get("/packs/app-#{DIGEST}.css").body
    assert_equal "old", get("/packs/app-#{DIGEST}.css", prefix: "/packs").body
  end

  def test_head_ranges_and_conditions
    write("1", "assets/app-#{DIGEST}.css", "0123456789")
    response = call("REQUEST_METHOD" => "HEAD", "PATH_INFO" => "/assets/app-#{DIGEST}.css")
    assert_equal [200, "", "10"], [response.status, response.body, response["content-length"]]
    part = get("/assets/app-#{DIGEST}.css", "HTTP_RANGE" => "bytes=2-4")
    assert_equal [206, "234", "bytes 2-4/10"], [part.status, part.body, part["content-range"]]
    assert_match(/multipart/, get("/assets/app-#{DIGEST}.css", "HTTP_RANGE" => "bytes=0-1,4-5")["content-type"])
    assert_equal 416, get("/assets/app-#{DIGEST}.css", "HTTP_RANGE" => "bytes=20-").status
    assert_equal 304, get("/assets/app-#{DIGEST}.css", "HTTP_IF_MODIFIED_SINCE" => response["last-modified"]).status
  end

  def test_compressed_files_are_for_those_that_accept_them
    path = "assets/app-#{DIGEST}.css"
    {"" => "plain", ".gz" => "gzip", ".br" => "brotli"}.each { |ending, text| write("1", path + ending, text) }
    {nil => "plain", "identity" => "plain", "gzip" => "gzip", "br, gzip" => "brotli", "gzip;q=0, br;q=0" => "plain", "zstd" => "plain"}.each do |accepted, text|
      response = get("/#{path}", **{"HTTP_ACCEPT_ENCODING" => accepted}.compact)
      assert_equal [text, "text/css", "accept-encoding"], [response.body, response["content-type"], response["vary"]]
      assert_equal({"gzip" => "gzip", "brotli" => "br"}[text].to_s, response["content-encoding"].to_s)
    end
    assert_equal "pla", get("/#{path}", "HTTP_ACCEPT_ENCODING" => "br", "HTTP_RANGE" => "bytes=0-2").body
  end

  # It would be kept for a year.
  def test_a_file_that_may_still_be_written_is_not_served
    write("1", "assets/app-#{DIGEST}.css", "half", age: 0)
    assert_equal "of the app", get("/assets/app-#{DIGEST}.css").body
  end

  def test_what_no_release_has_is_not_looked_for_again_at_once
    middleware = build
    FileUtils.mkdir_p(File.dirname(place("1", "x")))
    assert_equal "of the app", ask(middleware, "/assets/app-#{DIGEST}.css").body
    write("1", "assets/app-#{DIGEST}.css", "old")
    assert_equal "of the app", ask(middleware, "/assets/app-#{DIGEST}.css").body
    clock.advance(1)
    assert_equal "old", ask(middleware, "/assets/app-#{DIGEST}.css").body
  end

  # The last thousand.
  def test_no_more_is_remembered_of_what_is_missing
    middleware = build
    paths = Array.new(2_000) { |number| format("assets/app-%08x.css", number) }
    FileUtils.mkdir_p(File.dirname(place("1", "x")))
    paths.each { |path| ask(middleware, "/#{path}") }
    paths.values_at(999, 1_000).each { |path| write("1", path, "old") }
    assert_equal ["old", "of the app"], paths.values_at(999, 1_000).map { |path| ask(middleware, "/#{path}").body }
  end

  def test_a_release_that_comes_or_goes_is_noticed
    middleware = build
    assert_equal "of the app", ask(middleware, "/assets/app-#{"0" * 8}.css").body
    write("1", "assets/app-#{DIGEST}.css", "old")
    clock.advance(1)
    assert_equal "old", ask(middleware, "/assets/app-#{DIGEST}.css").body
    clock.advance(1)
    FileUtils.remove_entry(File.join(@folder, "1"))
    assert_equal "of the app", ask(middleware, "/assets/app-#{DIGEST}.css").body
  end

  def test_wrong_settings_are_refused
    {
      {releases: nil} => /releases: nil are not absolute paths/, {releases: "releases/*/public"} => /releases: .* are not absolute/,
      {releases: []} => /releases: \[\]/, {prefix: "assets"} => /prefix: "assets" is not a path/, {prefix: "/"} => /prefix/, {prefix: "/a/../b"} => /prefix/,
      {keep: 0} => /keep: 0 is not a whole number, 1 or more/
    }.each do |options, message|
      assert_match(message, assert_raises(NeverBlock::ConfigurationError) { build(**options) }.message)
    end
  end

  private

  def place(release, path) = File.join(@folder, release, "public", path)

  def write(release, path, text, age: 60)
    path = place(release, path)
    FileUtils.mkdir_p(File.dirname(path))
    File.write(path, text)
    age(path, age)
    age(File.join(@folder, release, "public"), age)
  end

  def age(path, seconds = 60)
    time = Time.now - seconds
    File.utime(time, time, path)
  end

  def link(release, path, target) = File.symlink(target, place(release, path))

  def build(**options)
    app = ->(_) { [404, {"content-type" => "text/plain"}, ["of the app"]].tap { @asked += 1 } }
    NeverBlock::ReleaseAssets.new(app, releases: File.join(@folder, "*", "public"), current: File.join(@folder, "none"), **options)
  end

  def get(path, current: nil, keep: nil, prefix: nil, **env) = ask(build(**{current:, keep:, prefix:}.compact), path, **env)

  def call(env) = ask(build, env.delete("PATH_INFO"), **env)

  def ask(middleware, path, **env) = Rack::MockResponse.new(*middleware.call(Rack::MockRequest.env_for("/").merge("PATH_INFO" => path, **env)))
end
