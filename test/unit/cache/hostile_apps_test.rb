# frozen_string_literal: true

require "test_helper"
require "delegate"
require "minitest/mock"
require "support/at_call"
require "support/runs"
require "support/cached_app"
require "support/virtual_time"

# Apps that do what apps should not, and requests that end at the worst moment. No response may reach the wrong client,
# be stored with a hole, or leave anything behind.
class CacheHostileAppsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::AtCall
  include NeverBlockTest::Runs
  include NeverBlockTest::CachedApp

  FRESH = {"cache-control" => "max-age=60"}.freeze

  # As Timeout and Thread#kill interrupt.
  Interruption = Class.new(Exception) # standard:disable Lint/InheritException

  # A store that does something else in between.
  class Meddled < SimpleDelegator
    def generation(key)
      @once&.call.tap { @once = nil }
      super
    end

    def before_the_next_fetch(&block) = @once = block
  end

  # -- whose response it is

  # The stored response is of another language than the request that waits. Nothing is remembered of what responses of
  # this URL depend on: a new process with an old store.
  def test_a_validated_response_goes_only_to_requests_that_it_is_for
    stale = {"cache-control" => "max-age=60, must-revalidate", "age" => "61", "vary" => "accept-language", "etag" => '"1"'}
    app = proc do |env|
      wait_here if @calls == 1
      env["HTTP_IF_NONE_MATCH"] ? [304, {**stale, **FRESH, "age" => "0"}, []] : ok("in #{env["HTTP_ACCEPT_LANGUAGE"]}", **stale)
    end
    store = NeverBlock::Cache::MemoryStore.new(bytes: 1 << 20)
    cached(store:, &app)
    go_on
    get("/a", "HTTP_ACCEPT_LANGUAGE" => "de")
    cached(store:, &app)
    bodies = together(8) { |n| get("/a", "HTTP_ACCEPT_LANGUAGE" => %w[de fr][n % 2]).body }
    assert_equal ["in de", "in fr"] * 4, bodies
  end

  def test_a_stale_response_in_place_of_an_error_goes_only_to_requests_that_it_is_for
    stale = {"cache-control" => "max-age=60, stale-if-error=60", "age" => "61", "vary" => "accept-language"}
    app = proc do |env|
      wait_here if @calls == 1
      raise IOError, "away" if env["HTTP_ACCEPT_LANGUAGE"] == "de" && @later
      ok("in #{env["HTTP_ACCEPT_LANGUAGE"]}", **stale)
    end
    store = NeverBlock::Cache::MemoryStore.new(bytes: 1 << 20)
    cached(store:, &app)
    go_on
    get("/a", "HTTP_ACCEPT_LANGUAGE" => "de")
    @later = true
    cached(store:, &app)
    assert_equal ["in de", "in fr"] * 4, together(8) { |n| get("/a", "HTTP_ACCEPT_LANGUAGE" => %w[de fr][n % 2]).body }
  end

  # As middleware does that takes the language from the path.
  def test_an_app_that_changes_its_env_does_not_change_what_a_response_is_stored_for
    cached do |env|
      said = env["HTTP_ACCEPT_LANGUAGE"].dup
      env["HTTP_ACCEPT_LANGUAGE"] = "en"
      ok("in #{said}", "vary" => "accept-language", **FRESH)
    end
    assert_equal "in de", get("/a", "HTTP_ACCEPT_LANGUAGE" => "de").body
    assert_equal "in en", get("/a", "HTTP_ACCEPT_LANGUAGE" => "en").body
  end

  def test_an_app_that_changes_strings_of_its_env_does_not_change_what_a_response_is_stored_for
    cached do |env|
      said = env["HTTP_X_NAME"].dup
      env["HTTP_X_NAME"].upcase!
      ok("hello #{said}", **FRESH)
    end
    request = {"HTTP_X_NAME" => +"bob"}
    assert_equal "hello bob", get("/a", **request).body
    assert_equal "bob", request["HTTP_X_NAME"], "the client's own env is not changed either"
    assert_equal "hello BOB", get("/a", "HTTP_X_NAME" => +"BOB").body
  end

  # The app gets a header because it has said that it varies on it, and then does not say so any more.
  def test_an_app_that_forgets_what_its_response_depends_on
    cached do |env|
      ok("for #{env["HTTP_USER_AGENT"] || "all"}", **FRESH, **((@calls <= 2) ? {"vary" => "user-agent"} : {}))
    end
    assert_equal "for one", get("/a", "HTTP_USER_AGENT" => "one").body
    assert_equal 2, @calls
    assert_equal "for all", get("/a", "HTTP_USER_AGENT" => "two").body
    assert_equal "for all", get("/a", "HTTP_USER_AGENT" => "three").body
    assert_equal 4, @calls
  end

  def test_an_app_that_removes_what_forbids_sharing_from_its_env
    cached(credential_headers: ["X-Tenant"]) do |env|
      env.delete("REQUEST_METHOD")
      ok("page #{@calls}", **FRESH)
    end
    assert_equal ["page 1"] * 2, Array.new(2) { get("/a").body }
  end

  def test_headers_and_chunks_that_the_app_changes_afterwards
    chunk = +"for all"
    value = +"max-age=60"
    headers = {"cache-control" => value, "x-list" => [+"one"]}
    cached { |_| [200, headers, [chunk]] }
    first = get("/a")
    chunk.replace("changed")
    value.replace("private")
    headers["x-list"].first << " changed"
    headers["x-more"] = "1"
    first.headers["x-mine"] = "1"
    second = get("/a")
    assert_equal ["for all", ["one"], nil, nil], [second.body, second.headers["x-list"], *second.headers.values_at("x-more", "x-mine")]
  end

  # A purge between the look into the store and the fetch: what was purged is not used again.
  def test_a_purged_response_is_not_validated
    store = Meddled.new(NeverBlock::Cache::MemoryStore.new(bytes: 1 << 20))
    cached(store:) do |env|
      next [304, {"etag" => '"1"', **FRESH}, []] if env["HTTP_IF_NONE_MATCH"]
      ok("version #{@calls}", "cache-control" => "max-age=0", "etag" => '"1"')
    end
    get("/a")
    store.before_the_next_fetch { @cache.purge("http://example.org/a") }
    assert_equal "version 2", get("/a").body
  end

  # -- ends that are no exceptions

  def test_an_app_that_ends_its_thread
    body = Object.new
    def body.each
      yield "part"
      Thread.current.kill
    end
    cached { |_| [200, {**FRESH}, body] }
    assert_kind_of NeverBlock::Cache::Fill::Truncated, Thread.new { raised { get("/a") } }.value
    assert_equal 0, @cache.stats[:entries]
  end

  def test_an_app_that_ends_its_fiber
    [->(_) { Fiber.current.kill }, ->(_) { [200, {**FRESH}, Enumerator.new { |chunks| chunks << "a" and Fiber.current.kill }] }].each do |app|
      in_run do
        cached(&app)
        raised { get("/a") }
        assert_equal 0, @cache.stats[:entries]
      end
    end
  end

  def test_an_app_that_throws
    cached { |_| throw :halted }
    assert_raises(UncaughtThrowError) { get("/a") }
  end

  def test_an_app_that_exits
    cached { |_| exit(3) }
    assert_kind_of NeverBlock::Error, raised { get("/a") }
  end

  def test_a_signal_is_not_for_a_client
    cached { |_| raise Interrupt }
    assert_kind_of Interrupt, raised { in_run { raised { get("/a") } && sleep } }
  end

  # An exception from outside may come anywhere.
  def test_a_first_request_that_ends_at_any_step_hinders_nobody
    steps = {"the store" => [NeverBlock::Cache::MemoryStore, :generation], "the table" => [NeverBlock::Cache::Fills, :find],
             "the task" => [NeverBlock::Cache::Background.singleton_class, :run]}
    steps.each do |name, (owner, method)|
      cached { |_| ok("for all", **FRESH) }
      at_call(owner, method, -> { raise Interruption }) { assert_kind_of Interruption, raised { get("/a") }, name }
      assert_equal "for all", get("/a").body
      assert_equal [1, 0], [@calls, @cache.stats[:waiting]]
    end
  end

  def test_a_refresh_that_can_not_begin_hinders_nobody
    cached { |_| ok("version #{@calls}", "cache-control" => "max-age=60, stale-while-revalidate=60", "age" => (@calls == 1) ? "61" : "0") }
    get("/a")
    at_call(NeverBlock::Cache::Background.singleton_class, :run, -> { raise Interruption }) { raised { get("/a") } }
    pass_until("the new version") { get("/a").body == "version 2" }
  end

  # -- more calls than needed

  def test_a_second_try_that_does_not_begin
    cached do |_|
      wait_here if @calls == 1
      raise IOError, "only once" if @calls == 1
      ok("for all", **FRESH)
    end
    run = NeverBlock::Cache::Background.method(:run)
    begun = 0
    interrupted = lambda do |*arguments, &work|
      raise Interruption if (begun += 1) == 2
      run.call(*arguments, &work)
    end
    NeverBlock::Cache::Background.stub(:run, interrupted) do
      outcomes = together(20) { raised { get("/a") }.class }
      assert_equal({NilClass => 18, IOError => 1, Interruption => 1}, outcomes.tally)
    end
    assert_equal 2, @calls
  end

  def test_nothing_is_remembered_of_very_long_urls
    cached { |_| ok("page", "cache-control" => "private") }
    get("/a?#{"x" * 3_000}")
    assert_equal 0, @cache.stats[:uncollapsible]
    get("/a")
    assert_equal 1, @cache.stats[:uncollapsible]
  end

  # Each has an entry of its own.
  def test_unusual_headers_do_not_drive_out_the_usual_variant
    cached { |env| ok("page #{env["HTTP_X_UNUSUAL"]}", **FRESH) }
    100.times do |n|
      get("/a")
      get("/a", "HTTP_X_UNUSUAL" => n.to_s)
    end
    assert_equal 101, @calls
  end

  # A fetch that hangs for ever, and those that come later: they do not wait for it again and again.
  def test_a_fetch_that_hangs_is_replaced
    NeverBlockTest::VirtualTime.during do |clock|
      in_run do |scope|
        cached(wait: 30) do |_|
          number = @calls
          wait_here if number == 1
          ok("page #{number}", **FRESH)
        end
        first = parked(scope.spawn { get("/a").body })
        before = clock.elapsed
        assert_equal "page 2", get("/a").body
        assert_equal "page 3", get("/a").body, "this one has begun another fetch"
        assert_equal "page 3", get("/a").body
        assert_match(/hit/, get("/a").headers["cache-status"])
        assert_in_delta 30, clock.elapsed - before, 1e-5, "one of them has waited"
        go_on
        assert_equal "page 1", first.value
      end
    end
  end

  # Clients that ask for many URLs, and leave at once.
  def test_fetches_without_clients_are_limited
    in_run do |scope|
      cached(max_unattended: 5) { |_| wait_here }
      clients = Array.new(30) { |n| parked(scope.spawn { get("/#{n}") }) }
      assert_equal 30, @now
      clients.each(&:cancel)
      clients.each(&:join)
      pass_until("the end of most") { @now <= 5 }
      assert_equal [5, 5], [@now, @cache.stats[:fetching]]
      go_on
    end
  end

  # -- invalidation

  # As Rails' router does for engines, and middleware that rewrites paths.
  def test_an_unsafe_request_whose_env_the_app_changes
    cached do |env|
      env["PATH_INFO"] = "/inner"
      env["REQUEST_METHOD"] = "GET" # as of a form with _method
      ok("version #{@calls}", **((@calls == 2) ? {} : FRESH))
    end
    assert_equal "version 1", get("/a").body
    request("POST", "/a")
    assert_equal "version 3", get("/a").body
  end

  def test_an_unsafe_request_with_a_strange_location
    [["/b", "/c"], 7, nil, "http://[", "\xff"].each do |location|
      body = ["done"]
      cached { |env| (env["REQUEST_METHOD"] == "GET") ? ok("page", **FRESH) : [201, {"location" => location}, body] }
      assert_equal 201, request("POST", "/a").status, location.inspect
    end
  end

  # The response of a 304 may depend on more than the stored one did.
  def test_a_validation_that_changes_what_a_response_depends_on
    cached do |env|
      next [304, {"etag" => '"1"', "vary" => "accept", **FRESH}, []] if env["HTTP_IF_NONE_MATCH"]
      ok("page #{@calls}", "cache-control" => "max-age=0", "etag" => '"1"')
    end
    get("/a")
    assert_equal "page 3", get("/a").body
    assert_equal 3, @calls
  end

  def test_a_validation_that_adds_tags
    cached do |env|
      next [304, {"etag" => '"1"', "cache-tag" => "new", **FRESH}, []] if env["HTTP_IF_NONE_MATCH"]
      ok("page", "cache-control" => "max-age=0", "etag" => '"1"', "cache-tag" => "old")
    end
    2.times { get("/a") }
    assert_equal [0, 1], %w[old new].map { |tag| @cache.purge_tag(tag) }
  end

  # -- a store that fails

  def test_a_store_that_fails_after_the_body_cuts_nobody_off
    store = NeverBlock::Cache::MemoryStore.new(bytes: 1 << 20)
    store.define_singleton_method(:write) { |*, **| raise IOError, "disk on fire" }
    in_run do
      cached(store:) { |_| ok("whole", **FRESH) }
      _, _, following = @cache.call(env_of("GET", "/a"))
      pass_until("the end of the fetch") { @cache.stats[:fetching].zero? }
      text = +""
      following.each { |chunk| text << chunk }
      assert_equal "whole", text
    end
  end

  def test_a_refresh_that_fails_is_told
    in_run do
      errors = StringIO.new
      cached { |_| (@calls == 1) ? ok("a", "cache-control" => "max-age=60, stale-while-revalidate=60", "age" => "61") : raise(IOError, "gone away") }
      2.times { get("/a", "rack.errors" => errors) }
      pass_until("the end of the fetch") { @cache.stats[:fetching].zero? }
      assert_match(/gone away \(IOError\)/, errors.string)
    end
  end
end
