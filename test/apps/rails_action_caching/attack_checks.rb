# frozen_string_literal: true

# What filters find out of a client, values that a client chooses, and unusual responses: a part of checks.rb.
require_relative "action_caching_case"
require_relative "app/attacks"

class ActionCachingAttacks < ActionCachingCase
  %w[taken chosen].each do |action|
    define_method(:"test_what_a_filter_has_#{action}_of_the_session_is_not_shared") do
      bodies = %w[ann bob].map { |name| as(name) { |one| one.get("/attacks/#{action}") } }
      assert_equal ["#{action} 1 ann", "#{action} 2 bob"], bodies
    end
  end

  %w[begun given given_signed token].each do |action|
    define_method(:"test_what_a_filter_has_#{action}_is_not_shared") do
      bodies = Array.new(2) { open_session.then { |one| one.get("/attacks/#{action}") && one.body } }
      assert_equal 2, calls[action]
      assert_equal 2, bodies.uniq.size
    end
  end

  def test_a_cookie_that_a_filter_has_searched_is_not_shared
    {"found" => "", "raw_cookie" => "name="}.each do |action, shown|
      bodies = %w[ann bob].map { |name| get("/attacks/#{action}", headers: {"Cookie" => "name=#{name}"}) && body }
      assert_equal ["#{action} 1 #{shown}ann", "#{action} 2 #{shown}bob"], bodies
    end
  end

  def test_whether_there_is_a_session_is_not_shared
    %w[exists exists_itself].each do |action|
      assert_equal "#{action} 1 true", as("ann") { |one| one.get("/attacks/#{action}") }
      reset!
      get "/attacks/#{action}"
      assert_equal "#{action} 2 false", body
    end
  end

  def test_headers_of_the_app_that_a_filter_has_read_belong_to_the_key
    %w[tenant shared_tenant owned_tenant].each do |action|
      bodies = %w[a b a].map { |tenant| get("/attacks/#{action}", headers: {"X-Tenant" => tenant}) && body }
      assert_equal ["#{action} 1 a", "#{action} 2 b", "#{action} 1 a"], bodies
    end
    bodies = [{"X-Beta" => "1"}, {}, {"X-Beta" => "1"}].map { |headers| get("/attacks/beta", headers:) && body }
    assert_equal ["beta 1 true", "beta 2 false", "beta 1 true"], bodies
  end

  def test_headers_of_all_requests_split_nothing
    %w[a b].each do |text|
      get "/attacks/usual", headers: {"User-Agent" => text, "X-Turbo-Request-Id" => text, "Referer" => "http://#{text}/",
                                      "X-Forwarded-For" => "1.1.1.#{text.ord}", "Traceparent" => text}
    end
    assert_equal 1, calls["usual"]
  end

  def test_media_types_beside_the_format
    chrome, safari = "text/html,image/webp,*/*;q=0.8", "text/html,*/*;q=0.8"
    %w[webp accepts].each do |action|
      bodies = [chrome, safari].map { |accept| get("/attacks/#{action}", headers: {"Accept" => accept}) && body }
      assert_equal ["#{action} 1 true", "#{action} 2 false"], bodies
    end
    [chrome, safari].each { |accept| get("/attacks/usual", headers: {"Accept" => accept}) }
    assert_equal 1, calls["usual"]
  end

  def test_a_header_that_is_searched_for_is_read
    %w[has_header each_header].each do |action|
      2.times { get "/attacks/#{action}", headers: {"X-Beta" => "1"} }
      assert_equal 2, calls[action], action
    end
  end

  def test_a_record_of_current_attributes_belongs_to_the_key
    bodies = [1, 2, 1].map { |id| get("/attacks/organized", env: {"test.organization" => id}) && body }
    assert_equal ["organized 1 1", "organized 2 2", "organized 1 1"], bodies
  end

  def test_a_database_for_each_tenant
    get "/attacks/usual"
    Object.const_set(:ActiveRecord, Module.new)
    shards = %i[north south north]
    ActiveRecord.const_set(:Base, Class.new.tap { |base| base.define_singleton_method(:current_shard) { shards.shift } })
    bodies = Array.new(3) { get("/attacks/usual") && body }
    assert_equal ["usual 2 ", "usual 3 ", "usual 2 "], bodies
  ensure
    Object.send(:remove_const, :ActiveRecord)
  end

  def test_the_user_of_devise_that_a_filter_has_found
    settings.guard = :raise
    assert_raises(NeverBlock::ActionCaching::PersonalError) { get "/customer?id=ann" }
  end

  def test_a_message_of_a_filter_is_not_lost
    get "/attacks/alerted"
    get "/attacks/alerted", headers: {"X-Client" => "alerted"}
    assert_equal "alerted 2 alert", body
    get "/attacks/alerted"
    assert_equal "alerted 1 ", body
  end

  def test_a_body_that_the_action_has_compressed_is_not_stored
    get "/attacks/compressed", headers: {"Accept-Encoding" => "gzip"}
    assert_equal "gzip", headers["content-encoding"]
    get "/attacks/compressed", headers: {"Accept-Encoding" => "identity"}
    assert_nil headers["content-encoding"]
  end

  def test_bodies_of_several_encodings_and_parts
    2.times do
      status, _, parts = Rails.application.call(Rack::MockRequest.env_for("/attacks/mixed"))
      assert_equal [200, "größe\xff".b], [status, parts.each.map(&:b).join]
      get "/attacks/data"
      assert_equal "\xff\x00größe".b, body.b
      assert_match(/data\.bin/, headers["content-disposition"])
      get "/attacks/chunks"
      assert_equal "abc", body
    end
    assert_equal [1, 1, 1], calls.values_at("mixed", "data", "chunks")
  end

  def test_a_response_that_takes_the_connection_is_not_stored
    2.times { get "/attacks/hijacked" }
    assert_equal 2, calls["hijacked"]
  end

  def test_filters_that_rewrite_the_response_do_so_for_each_request
    bodies = %w[a b].map { |client| get("/attacks/rewritten", headers: {"X-Client" => client}) && body }
    assert_equal ["rewritten 1  for a", "rewritten 1  for b"], bodies
    assert_equal 2, Array.new(2) { get("/attacks/timed") && headers["x-time"] }.uniq.size
    assert_equal 1, calls["timed"]
  end

  def test_a_response_of_a_handler_of_errors_is_not_stored
    2.times { get("/attacks/rescued") && assert_equal([200, "rescued no report"], [status, body]) }
    assert_equal 2, calls["rescued"]
  end

  def test_an_action_within_another_one
    settings.guard = :skip
    bodies = %w[ann bob].map { |name| as(name) { |one| one.get("/attacks/outer") } }
    assert_equal %w[ann bob], bodies.map { |text| text[/\w+\z/] }
  end

  def test_values_that_a_client_chooses_are_no_errors
    bodies = ["a[b]=1", "a[b]=2", "a[b]=1", "a[]=1", "a=1"].map { |query| get("/attacks/parameters?#{query}") && [status, body] }
    assert_equal [1, 2, 1, 3, 4].map { |n| [200, "parameters #{n} "] }, bodies
    2.times { get "/attacks/texts?a=%C3%BC", headers: {"User-Agent" => "\xfc".b} }
    assert_equal [200, "texts 1 "], [status, body]
    [500, 1, 500].each { |size| get "/attacks/tag", params: {id: "x" * size} }
    assert_equal [200, "tag 3 "], [status, body]
    2.times { get "/attacks/tag?id=" }
    assert_equal [200, "tag 5 "], [status, body]
    2.times { get "/attacks/tags?n=100" }
    assert_equal [200, "tags 2 "], [status, body]
    2.times { get "/attacks/tags?n=10" }
    assert_equal [200, "tags 3 "], [status, body]
  end

  def test_values_that_differ_have_pages_of_their_own
    names = AttacksController::ODD.keys - %w[h n]
    assert_equal names.size - 2, names.map { |odd| key(odd).b }.uniq.size, "a time of one class is the same with each subclass"
    %w[h n].each { |odd| assert_raises(NeverBlock::ConfigurationError) { get "/attacks/odd", params: {odd:} } }
  end

  def test_a_thread_of_an_action_does_not_keep_the_request
    gate = Thread::Queue.new
    seen = nil
    ApplicationController.steps["plain"] = -> { seen = Thread.new { gate.pop && NeverBlock::ActionCaching::Watch.current } }
    get "/pages/plain"
    gate << true
    assert_nil seen.value&.controller
  end

  def test_a_store_that_keeps_nothing
    settings.store = ActiveSupport::Cache::NullStore.new
    2.times { get "/pages/tagged/1" }
    2.times { get "/pages/plain" }
    assert_equal [2, 2], calls.values_at("tagged", "plain")
  ensure
    settings.store = nil
  end

  def test_what_a_request_does_to_its_response_is_not_done_to_the_stored_one
    settings.store = ActiveSupport::Cache::MemoryStore.new(serializer: nil, coder: nil)
    get "/attacks/rewritten"
    bodies = Array.new(3) { get("/attacks/rewritten", headers: {"X-Client" => "a"}) && response.body.dup }
    assert_equal ["rewritten 1  for a"], bodies.uniq
  ensure
    settings.store = nil
  end

  private

  def key(odd) = NeverBlock::ActionCaching::Rule.new(vary: AttacksController::ODD.fetch(odd)).varies(self)

  def as(name, &) = logged_in("/attacks/sign", {name:}, &)
end
