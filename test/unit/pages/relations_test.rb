# frozen_string_literal: true

require "test_helper"
require "neverblock/pages"

class PagesRelationsTest < Minitest::Test
  Page = NeverBlock::Pages::Page
  Relations = NeverBlock::Pages::Relations
  LinkHeader = NeverBlock::Pages::LinkHeader

  # The readers of pagy's objects: `Pagy` and `Pagy::Countless` of 9.x, `Pagy::Offset` of 43.x, `Pagy::Keyset`.
  Classic = Struct.new(:count, :page, :limit, :last, :next, :prev)
  Offset = Struct.new(:count, :page, :limit, :last, :next, :previous)
  Keyset = Struct.new(:page, :limit, :next)
  Keyset43 = Struct.new(:page, :limit, :next, :options)
  module Pagy
    class Keynav < Struct.new(:page, :limit, :next, :previous, :last); end # standard:disable Style/StructInheritance
  end

  def test_relations_of_a_page
    assert_equal [{next: 2, last: 3}, {first: 1, prev: 1, next: 3, last: 3}, {first: 1, prev: 2}], (1..3).map { |number| of(number, 3).to_h }
    assert_equal({}, of(1, 1).to_h)
    assert_predicate of(1, 1), :alone?
  end

  def test_without_a_count_the_last_page_is_unknown
    relations = Relations.of(Page.new([1, 2, 3], number: 2, per: 1, count: false))
    assert_equal({first: 1, prev: 1, next: 3}, relations.to_h)
    assert_empty relations.numbers(2)
  end

  def test_numbers_with_gaps
    assert_equal [1, 2, 3, nil, 20], of(1, 20).numbers(2)
    assert_equal [1, 2, 3, 4, 5, 6, nil, 20], of(4, 20).numbers(2)
    assert_equal [1, 2, 3, 4, 5, 6, 7, nil, 20], of(5, 20).numbers(2)
    assert_equal [1, nil, 4, 5, 6, 7, 8, nil, 20], of(6, 20).numbers(2)
    assert_equal [1, nil, 18, 19, 20], of(20, 20).numbers(2)
    assert_equal [1, 2, 3], of(2, 3).numbers(2)
    assert_equal [1, nil, 5, nil, 9], of(5, 9).numbers(0)
  end

  def test_objects_of_pagy
    assert_equal({first: 1, prev: 1, next: 3, last: 5}, Relations.of(Classic.new(50, 2, 10, 5, 3, 1)).to_h)
    assert_equal({first: 1, prev: 1, next: 3, last: 5}, Relations.of(Offset.new(50, 2, 10, 5, 3, 1)).to_h)
    countless = Relations.of(Offset.new(nil, 2, 10, 3, 3, 1))
    assert_equal [{first: 1, prev: 1, next: 3}, nil], [countless.to_h, countless.last]
    assert_equal({next: "WzFd"}, Relations.of(Keyset.new(nil, 10, "WzFd")).to_h)
    assert_equal({first: 1}, Relations.of(Keyset.new("WzFd", 10, nil)).to_h)
    assert_equal({first: 1}, Relations.of(Keyset43.new(nil, 10, nil, {page: "WzFd"})).to_h)
  end

  def test_what_can_not_be_linked_is_named
    error = assert_raises(NeverBlock::ConfigurationError) { Relations.of(Pagy::Keynav.new(1, 10, 2, nil, 2)) }
    assert_match(/in the browser only/, error.message)
    error = assert_raises(NeverBlock::ConfigurationError) { Relations.of([]) }
    assert_match(/a Array is neither the result of page_of/, error.message)
  end

  def test_a_link_header_is_appended
    headers = {"link" => "</a.css>; rel=preload"}
    LinkHeader.append(headers, prev: "http://a/users", next: "http://a/users/pages/3?q=%22")
    assert_equal '</a.css>; rel=preload, <http://a/users>; rel="prev", <http://a/users/pages/3?q=%22>; rel="next"', headers["link"]
    LinkHeader.append(headers = {}, next: "http://a/x> y")
    assert_empty headers
    LinkHeader.append(headers = {"link" => %w[<a> <b>]}, next: "c")
    assert_equal '<a>, <b>, <c>; rel="next"', headers["link"]
  end

  def test_a_link_header_is_bounded
    url = "http://a/users?q=#{"a" * 800}"
    LinkHeader.append(headers = {}, first: url, prev: url, next: url, last: url)
    assert_equal %w[prev next], headers["link"].scan(/rel="(\w+)"/).flatten
    LinkHeader.append(headers = {}, next: url * 3)
    assert_empty headers
  end

  private

  def of(number, pages) = Relations.of(Page.new([0] * pages, number:, per: 1))
end
