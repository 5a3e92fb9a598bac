# frozen_string_literal: true

# Pages in the path, in a Rails app of this process: test/programs/rails_pages_test.rb runs it with each Rails' gems.
require_relative "app"
require "minitest/autorun"

class PagesChecks < ActionDispatch::IntegrationTest
  def test_the_page_in_the_path
    get "/users"
    assert_response :ok
    assert_includes body, "user 1,user 2,"
    get "/users/pages/2"
    assert_includes body, "user 21,user 22,"
    get "/users/pages/3"
    assert_includes body, "user 41,user 42,user 43,user 44,user 45"
    get "/users/pages/2.xml"
    assert_equal "<users>20</users>", body
    get "/users/pages/3.json"
    assert_equal 5, JSON.parse(body).size
    head "/users/pages/3"
    assert_response :ok
  end

  def test_names_of_the_routes
    assert_equal "/users/pages/2", users_page_path(2)
    assert_equal "/users/pages/2.xml?q=a", users_page_path(2, format: :xml, q: "a")
    assert_equal "/admin/users/pages/2", admin_users_page_path(2)
    assert_equal "/posts/5/comments/pages/2", post_comments_page_path(5, 2)
    assert_equal "/comments/pages/2", comments_page_path(2)
    assert_equal "/de/people/pages/2", people_page_path("de", 2)
    assert_equal "/people/pages/2", people_page_path(page: 2)
    assert_equal "/t/sheep/leaves/2", sheep_index_page_path("t", 2)
    assert_equal "/events/pages/after/abc", events_page_after_path("abc")
    assert_equal "/users/search/pages/2", users_search_page_path(2)
    assert_raises(ActionController::UrlGenerationError) { users_page_path(1) }
    assert_raises(ActionController::UrlGenerationError) { events_page_after_path("a/b") }
  end

  def test_page_1_is_the_url_of_the_list
    {"/users/pages/1" => "/users", "/users/pages/1.xml" => "/users.xml", "/users/pages/1?q=2&b=1" => "/users?b=1&q=2",
     "/users/pages/1/" => "/users", "/users/pages/1?page=3" => "/users", "/posts/a%20b/comments/pages/1" => "/posts/a%20b/comments",
     "/de/people/pages/1" => "/de/people", "/shop/items/pages/1" => "/shop/items", "/users/search/pages/1" => "/users/search",
     "/t/sheep/leaves/1" => "/t/sheep", "/admin/users/pages/1" => "/admin/users"}.each do |path, target|
      get path
      assert_response 301, path
      assert_equal "http://www.example.com#{target}", URI.join("http://www.example.com", response.headers["Location"]).to_s
    end
  end

  def test_no_redirect_leaves_the_host
    ["//evil/sheep/leaves/1", "/%5Cevil/sheep/leaves/1", "///evil/sheep/leaves/1", "/\\evil/sheep/leaves/1"].each do |path|
      status, headers, = PagesApp.call(Rack::MockRequest.env_for("http://www.example.com/", "SCRIPT_NAME" => "").merge("PATH_INFO" => path))
      next if status == 404
      refute_match(%r{\A([/\\]{2}|\w+:)}, headers["location"], path)
    end
  end

  def test_what_is_not_a_page_is_not_found
    %w[0 -3 +1 +2 01 02 1.0 2.0 abc 2a a2 1e3 2.HTML 2.nothing %32 2%20 2%00 2,3 9999999999 99999999999999999999999999 999999999 4 after 2/3 3.xml.xml].each do |page|
      get "/users/pages/#{page}"
      assert_response 404, page
    end
    get "/users/pages"
    assert_not_equal 301, status
    post "/users/pages/2"
    assert_response 404
    get "/events/pages/2"
    assert_response 404
    get "/comments/pages/4"
    assert_response 404
  end

  def test_page_in_the_query_redirects
    {"/users?page=2" => "/users/pages/2", "/users?page=1" => "/users", "/users.xml?page=3&q=1&b=2" => "/users/pages/3.xml?b=2&q=1",
     "/users?q=%22%3E&page=2&a[]=1&a[]=2&h[x]=y" => "/users/pages/2?a%5B%5D=1&a%5B%5D=2&h%5Bx%5D=y&q=%22%3E",
     "/users?page=3&host=evil.example&protocol=ftp&only_path=false&script_name=/x&controller=a&action=b&format=json&anchor=z&params[a]=1&user=u&password=p&trailing_slash=1" =>
       "/users/pages/3?action=b&anchor=z&controller=a&format=json&host=evil.example&only_path=false&params%5Ba%5D=1&password=p&protocol=ftp&script_name=%2Fx&trailing_slash=1&user=u",
     "/posts/7/comments?page=2" => "/posts/7/comments/pages/2", "/comments?page=2" => "/comments/pages/2",
     "/de/people?page=2" => "/de/people/pages/2", "/people?page=2" => "/people/pages/2", "/users?p%61ge=2" => "/users/pages/2",
     "/?page=2" => "/users/pages/2", "/shop/items?page=2" => "/shop/items/pages/2", "/users?page=2&page=3" => "/users/pages/3",
     "/users/search?page=2" => "/users/search/pages/2", "/t/sheep?page=2" => "/t/sheep/leaves/2"}.each do |path, target|
      get path
      assert_response 301, path
      assert_equal "http://www.example.com#{target}", response.headers["Location"], path
    end
    %w[page= page=0 page=-1 page=abc page[]=2 page[a]=2 page=02 page=9999999999].each do |query|
      get "/users?#{query}"
      assert_response 404, query
    end
  end

  def test_the_path_takes_precedence_over_the_query
    get "/users/pages/2?page=3"
    assert_response :ok
    assert_includes body, "user 21,"
    post "/users?page=2"
    assert_not_equal 301, status
  end

  def test_a_path_has_no_slash_at_its_end
    get "/users/pages/2/?q=user"
    assert_redirected_to "http://www.example.com/users/pages/2?q=user"
    assert_response 301
  end

  def test_settings_of_a_controller
    get "/quiet?page=2&q=user&z=1"
    assert_response :ok
    assert_includes body, "user 21,"
    assert_includes body, 'href="/quiet?q=user"'
    assert_nil response.headers["Link"]
    get "/quiet?page=abc"
    assert_response 404
    get "/quiet/pages/2?page=3"
    assert_includes body, "user 21,"
    error = assert_raises(NeverBlock::ConfigurationError) { Class.new(UsersController) { page_options redirect: 1 } }
    assert_match(/redirect: 1 is neither/, error.message)
    assert_raises(NeverBlock::ConfigurationError) { Class.new(UsersController) { page_options keep: "q" } }
    assert_raises(NeverBlock::ConfigurationError) { Module.new { include NeverBlock::Pages } }
  end

  def test_no_method_is_an_action
    assert_equal %w[index search], UsersController.action_methods.to_a.sort
  end

  def test_bytes_of_a_path_are_encoded
    env = Rack::MockRequest.env_for("http://www.example.com/").merge("PATH_INFO" => "/\xC3\xA4\"/sheep/leaves/1".b)
    status, headers, = PagesApp.call(env)
    assert_equal [301, '/%C3%A4"/sheep'], [status, headers["location"]]
  end

  def test_links
    get "/users/pages/2?q=user&z=%22%3E%3Cscript%3E"
    query = "?q=user&amp;z=%22%3E%3Cscript%3E"
    refute_includes body, "<script>"
    assert_select "nav[aria-label=Pages] ul li a", 5
    assert_select "nav a[rel=prev]", "Previous"
    assert_select "nav a[rel=next]", "Next"
    assert_select "nav a[aria-current=page]", "2"
    assert_select "nav a[aria-label='Page 3']", "3"
    assert_includes body, %(<a rel="prev" href="/users#{query}">)
    assert_includes body, %(<a rel="next" href="/users/pages/3#{query}">)
    assert_includes body, %(<link rel="prev" href="/users#{query}">)
    assert_includes body, %(<link rel="next" href="/users/pages/3#{query}">)
    assert body.end_with?("|/pages/7|/users/pages/2?q=user&amp;z=%22%3E%3Cscript%3E|http://www.example.com/users#{query}")
  end

  def test_one_page_has_no_links
    get "/users?q=user+45"
    assert_includes body, "user 45|"
    assert_nil response.headers["Link"]
  end

  def test_link_headers
    get "/users/pages/2.json?q=user&a=1"
    assert_equal %w[first prev next last].zip(%w[users users users/pages/3 users/pages/3]).map { |rel, path| %(<http://www.example.com/#{path}.json?a=1&q=user>; rel="#{rel}") }.join(", "),
      response.headers["Link"]
    get "/users?preload=1"
    assert_equal '</a.css>; rel=preload, <http://www.example.com/users/pages/2?preload=1>; rel="next", <http://www.example.com/users/pages/3?preload=1>; rel="last"', response.headers["Link"]
    get "/comments/pages/2"
    assert_equal '<http://www.example.com/comments>; rel="first", <http://www.example.com/comments>; rel="prev", <http://www.example.com/comments/pages/3>; rel="next"', response.headers["Link"]
  end

  def test_links_stay_in_the_scope_of_the_request
    get "/de/people/pages/2"
    assert_includes body, 'href="/de/people"'
    assert_includes body, 'href="/de/people/pages/3"'
    get "/people/pages/2"
    assert_includes body, 'href="/people/pages/3"'
    get "/admin/users/pages/2"
    assert_includes body, 'href="/admin/users/pages/3"'
    get "/t/sheep/leaves/2"
    assert_includes body, 'href="/t/sheep/leaves/3"'
    assert_includes body, 'href="/t/sheep"'
    get "/posts/9/comments/pages/2"
    assert_includes response.headers["Link"], "/posts/9/comments/pages/3>"
    get "/shop/items/pages/2"
    assert_equal "3,4 /shop/items /shop/items/pages/3", body
    get "/users/search/pages/2"
    assert_equal "user 11 /users/search /users/search/pages/3", body
    get "/"
    assert_includes body, 'href="/users/pages/2"'
  end

  def test_a_relative_url_root
    get "/users/pages/2", env: {"SCRIPT_NAME" => "/app"}
    assert_includes body, 'href="/app/users/pages/3"'
    get "/users/pages/1", env: {"SCRIPT_NAME" => "/app"}
    assert_match %r{(\A|example\.com)/app/users\z}, response.headers["Location"]
    get "/users?page=2", env: {"SCRIPT_NAME" => "/app"}
    assert_match %r{example\.com/app/users/pages/2\z}, response.headers["Location"]
  end

  def test_objects_of_pagy
    get "/notes/pages/2"
    assert_includes body, '<nav aria-label="N &lt;b&gt;" class="notes">'
    assert_includes body, '<a rel="prev" href="/notes">&lt;</a>'
    assert_includes response.headers["Link"], '<http://www.example.com/notes/pages/3>; rel="last"'
  end

  def test_pages_after_a_row
    Event.delete_all
    time = Time.utc(2026, 1, 1)
    8.times { |number| Event.create!(title: "e#{number}", code: SecureRandom.uuid, created_at: time + (number / 3)/1_000_000r, happened_at: time - number) }
    {"" => Event.order(:created_at, :id), "?order=code" => Event.order(:code, :id), "?order=time" => Event.order(:happened_at, :id)}.each do |query, order|
      titles = []
      path = "/events#{query}"
      while path
        get path
        assert_response :ok
        titles.concat(body[/\A[^ ]*/].split(","))
        path = CGI.unescapeHTML(body[/rel="next" href="([^"]*)"/, 1].to_s).presence
        assert_match(%r{\A/events/pages/after/[A-Za-z0-9_-]+#{Regexp.escape(query)}\z}, path) if path
      end
      assert_equal order.map(&:title), titles
    end
    assert_includes response.headers["Link"], 'http://www.example.com/events?order=time>; rel="first"'
    %w[abc WzFd WzEsMl0 a.b].each do |cursor|
      get "/events/pages/after/#{cursor}"
      assert_response 404, cursor
    end
    get "/events?cursor=abc&page=2"
    assert_response :ok
  end

  def test_a_missing_route_is_named
    Rails.application.env_config["action_dispatch.show_exceptions"] = :none
    error = assert_raises(NeverBlock::ConfigurationError) { get "/loose" }
    assert_match(/loose#index has no such route; add concerns :pages to its resources/, error.message)
  ensure
    Rails.application.env_config["action_dispatch.show_exceptions"] = :all
  end

  def test_places_without_a_list_are_refused
    {
      -> { resource :profile, concerns: :pages } => /resource :profile has no list/,
      -> { resources :users, only: :show, concerns: :pages } => /resources :users has no action index/,
      -> { concerns :pages } => /outside of resources/,
      -> { resources(:users) { concerns :pages, size: 3 } } => /unknown option :size; known: keyset, path, action/,
      -> { resources(:users) { concerns :pages, path: "a/b" } } => /path: "a\/b" is not a segment/,
      -> { resources(:users) { concerns :pages, keyset: 1 } } => /keyset: 1 is neither/
    }.each do |routes, message|
      set = ActionDispatch::Routing::RouteSet.new
      error = assert_raises(NeverBlock::ConfigurationError) do
        set.draw do
          concern :pages, NeverBlock::Pages::Routes
          instance_exec(&routes)
        end
      end
      assert_match message, error.message
    end
  end

  def test_two_pages_are_two_entries_of_the_cache
    cache = NeverBlock::Cache.new(PagesApp, store: "memory:4m", details: true)
    UsersController.calls = 0
    bodies = %w[/users /users/pages/2 /users /users/pages/2 /users/pages/2.xml].map { |path| ask(cache, path).last }
    assert_equal 3, UsersController.calls
    assert_equal bodies[0], bodies[2]
    assert_equal bodies[1], bodies[3]
    assert_includes bodies[1], "user 21,"
    refute_equal bodies[0], bodies[1]
  end

  def test_no_parameter_puts_another_page_under_a_url
    ["page=3", "page=3&page=2", "x=1;page=3", "p%61ge=3", "page[]=3", "utm_source=1&page=3", "page%00=3", "utm_source=%26page=3"].each do |query|
      cache = NeverBlock::Cache.new(PagesApp, store: "memory:4m", ignore_params: %w[utm_source page])
      ["/users", "/users/pages/2"].each { |path| ask(cache, path, query) }
      assert_includes ask(cache, "/users").last, "user 1,", query
      assert_includes ask(cache, "/users/pages/2").last, "user 21,", query
      refute_includes ask(cache, "/users/pages/2").last, "utm_source"
    end
  end

  def test_no_header_puts_another_host_into_the_links_of_a_stored_page
    cache = NeverBlock::Cache.new(PagesApp, store: "memory:4m")
    %w[X_FORWARDED_HOST X_ORIGINAL_URL X_REWRITE_URL X_FORWARDED_PREFIX X_FORWARDED_PROTO].each do |name|
      ask(cache, "/users/pages/2", "", "HTTP_#{name}" => "evil.example")
      _, headers, body = ask(cache, "/users/pages/2")
      refute_match(/evil|ftp/, headers["link"] + body)
      assert_includes headers["link"], "<http://www.example.com/users/pages/3>; rel=\"next\""
    end
  end

  private

  def body = response.body

  def ask(app, path, query = "", headers = {})
    env = Rack::MockRequest.env_for("http://www.example.com/").merge("PATH_INFO" => path, "QUERY_STRING" => query, **headers)
    status, headers, chunks = app.call(env)
    body = +""
    chunks.each { |chunk| body << chunk }
    chunks.close if chunks.respond_to?(:close)
    [status, headers, body]
  end
end
