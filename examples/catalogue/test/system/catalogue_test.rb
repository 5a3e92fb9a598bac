# frozen_string_literal: true

require_relative "../application_system_test_case"

class CatalogueTest < ApplicationSystemTestCase
  # Without the app: what is stored, or what is being stored.
  ANSWERED = /hit|collapsed/

  test "a page is made once for all visitors" do
    bodies = Array.new(3) { as_visitor { html_of("/products") } }
    assert_equal 1, bodies.uniq.size
    assert_equal 1, calls("products#index")
    get "/products"
    assert_match(ANSWERED, get("/products")[1]["cache-status"])
    assert_equal 2, calls("products#index"), "one for each of the two hosts"
  end

  test "hundreds of visitors at the same time are one call, and have the same body" do
    responses = NeverBlock.run { NeverBlock.concurrently(1..200, limit: 200) { get("/products/pages/2") } }
    assert_equal [200], responses.map(&:first).uniq
    assert_equal 1, responses.map(&:last).uniq.size
    assert_equal 1, calls("products#index")
  end

  test "a report that hundreds ask for at the same time is computed once" do
    bodies = NeverBlock.run { NeverBlock.concurrently(1..200, limit: 200) { get("/report").last } }
    assert_equal ["45 products for 103500 cents"], bodies.uniq
    assert_equal 1, calls("reports#show")
  end

  test "a browser that has the page gets 304" do
    _, headers, = get("/products")
    assert_equal 304, get("/products", "HTTP_IF_NONE_MATCH" => headers["etag"]).first
    log_in "Ann"
    status, = get("/products", "HTTP_IF_NONE_MATCH" => headers["etag"], "HTTP_COOKIE" => cookie)
    assert_equal [304, 2], [status, calls("products#index")], "the store of actions has the same ETag"
  end

  test "users share pages, and their names are not in them" do
    bodies = %w[Ann Bob].map { |name| as_visitor { log_in(name) && html_of("/products/pages/2") } }
    assert_equal 1, bodies.uniq.size
    refute_match(/Ann|Bob/, bodies.first)
    assert_equal 2, calls("products#index"), "the first page, which a login leads to, and the second"
    assert_includes bodies.first, "/personal.js"
  end

  test "each user has a basket" do
    texts = %w[Ann Bob Ann].map { |name| as_visitor { log_in(name) && html_of("/basket") } }
    assert_equal [1, 2, 1], texts.map { |text| text[/call (\d)/, 1].to_i }
    assert_equal %w[Ann Bob Ann], texts.map { |text| text[/basket of (\w+)/, 1] }
    visit "/basket"
    assert_current_path "/session/new"
  end

  test "an edit is visible at once, on all pages that show the product" do
    product = Product.order(:name, :id).first
    pages = ["/products", "/products/#{product.id}"]
    2.times { pages.each { |path| assert_includes get(path).last, product.name } }
    pages.each { |path| assert_match(ANSWERED, get(path)[1]["cache-status"]) }
    pages.each { |path| assert_includes html_of(path), product.name }
    as_visitor do
      log_in "Ann"
      visit "/products/#{product.id}/edit"
      fill_in "Name", with: "A new name"
      click_on "Save"
      assert_text "A new name"
    end
    pages.each { |path| assert_includes html_of(path), "A new name" }
    pages.each { |path| assert_includes get(path).last, "A new name" }
  end

  test "browsers ask each time, since no purge reaches them" do
    assert_equal "max-age=0, private, must-revalidate", get("/products")[1]["cache-control"]
  end

  test "each page has a URL without a query" do
    visit "/products"
    click_on "2"
    assert_current_path "/products/pages/2"
    visit "/products?page=3"
    assert_current_path "/products/pages/3"
    assert_equal 5, JSON.parse(get("/products/pages/3.json").last).size
    assert_match(/rel="?prev/, page.response_headers["link"])
  end
end
