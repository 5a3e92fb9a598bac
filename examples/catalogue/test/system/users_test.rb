# frozen_string_literal: true

require_relative "../application_system_test_case"

# No user gets another one's page. Each name is a nonce, so that a page which crosses is seen.
class UsersTest < ApplicationSystemTestCase
  PAGES = %w[/basket /products /products/pages/2 /report].freeze

  test "many users at the same time" do
    cookies = Array.new(8) { SecureRandom.hex(8) }.to_h { |name| [name, as_visitor { log_in(name) && cookie }] }
    ApplicationController.calls.clear # a login leads to the list
    requests = (cookies.keys.product(PAGES) * 2).shuffle
    bodies = NeverBlock.run do
      NeverBlock.concurrently(requests, limit: 64) { |name, path| get(path, "HTTP_COOKIE" => cookies[name]).last }
    end
    requests.zip(bodies) do |(name, path), body|
      assert_equal [name] & [*(name if path == "/basket")], cookies.keys.select { |one| body.include?(one) }, path
    end
    assert_equal 8, calls("baskets#show"), "once for each user"
    assert_equal 2, calls("products#index"), "once for each page"
    assert_equal 1, calls("reports#show")
  end

  test "a visitor does not get what a user has made" do
    log_in "Ann"
    visit "/basket"
    as_visitor do
      visit "/basket"
      assert_current_path "/session/new"
    end
    assert_equal 302, get("/basket").first
  end

  test "shared pages begin no session, and a login outlasts them" do
    2.times { assert_nil get("/products")[1]["set-cookie"] }
    log_in "Ann"
    2.times { visit "/products/pages/3" }
    visit "/basket"
    assert_text "The basket of Ann"
  end
end
