# frozen_string_literal: true

require "test_helper"
require "support/page_records"

class PagesPageTest < Minitest::Test
  Page = NeverBlock::Pages::Page
  NotFound = NeverBlock::Pages::NotFound

  def test_a_page_of_an_array
    page = Page.new((1..7).to_a, number: 2, per: 3)
    assert_equal [4, 5, 6], page.items
    assert_equal [7, 3, 1, 3, 3], [page.count, page.total_pages, page.previous, page.next, page.size]
    refute_predicate page, :first?
    refute_predicate page, :last?
  end

  def test_the_first_and_the_last_page
    first = Page.new((1..7).to_a, number: 1, per: 3)
    last = Page.new((1..7).to_a, number: 3, per: 3)
    assert_equal [true, nil, 2, false], [first.first?, first.previous, first.next, first.last?]
    assert_equal [false, 2, nil, true], [last.first?, last.previous, last.next, last.last?]
    assert_equal [7], last.to_a
  end

  def test_a_full_last_page_is_the_last_one
    assert_predicate Page.new((1..6).to_a, number: 2, per: 3), :last?
    assert_predicate Page.new((1..6).to_a, number: 2, per: 3, count: false), :last?
    assert_raises(NotFound) { Page.new((1..6).to_a, number: 3, per: 3) }
    assert_raises(NotFound) { Page.new((1..6).to_a, number: 3, per: 3, count: false) }
  end

  def test_an_empty_list_has_one_page
    [true, false].each do |count|
      page = Page.new([], number: 1, per: 3, count:)
      assert_equal [true, true, true, nil], [page.first?, page.last?, page.empty?, page.next]
    end
    assert_equal 1, Page.new([], number: 1, per: 3).total_pages
    assert_raises(NotFound) { Page.new([], number: 2, per: 3) }
  end

  def test_a_page_is_the_list_of_its_items
    page = Page.new(%w[a b c], number: 1, per: 2)
    assert_equal %w[A B], page.map(&:upcase)
    assert_equal %w[a b], page.each.to_a
    assert_equal [%w[a b]], [page].map(&:to_ary)
    assert_equal 2, page.length
  end

  def test_only_one_form_of_a_number_is_a_page
    ["0", "-3", "+1", "01", "1.0", " 1", "1\n2", "abc", "", "1e3", "９", "1" * 10, ["2"], {"a" => "2"}, nil, "\xff"].each do |text|
      error = assert_raises(NotFound, text.inspect) { Page.number(text) }
      assert_kind_of NeverBlock::Error, error
      assert_predicate error.message, :valid_encoding?
    end
    assert_equal 999_999_999, Page.number("999999999")
  end

  def test_wrong_settings_are_named
    {per: 0, count: -1}.each do |name, value|
      options = {per: 3}.merge(name => value)
      error = assert_raises(NeverBlock::ConfigurationError) { Page.new([], number: 1, **options) }
      assert_match(/page_of: #{name}: #{value} is/, error.message)
    end
    assert_raises(NeverBlock::ConfigurationError) { Page.new([], number: 1, per: "20") }
    assert_match(/Hash is neither/, assert_raises(NeverBlock::ConfigurationError) { Page.new({}, number: 1, per: 1) }.message)
  end

  def test_a_page_of_a_relation_is_a_relation
    events(5)
    page = Page.new(@model.order(:title), number: 2, per: 2)
    assert_kind_of ActiveRecord::Relation, page.items
    assert_equal %w[c d], page.map(&:title)
    assert_equal [5, 3], [page.count, page.total_pages]
    assert_equal %w[e], Page.new(@model.order(:title), number: 3, per: 2).items.includes([]).map(&:title)
  end

  def test_a_relation_without_an_order_has_that_of_its_key
    events(3)
    assert_includes statements { Page.new(@model, number: 1, per: 2).to_a }.join, 'ORDER BY "events"."id"'
    refute_includes statements { Page.new(@model.order(:title), number: 1, per: 2).to_a }.join, '"id"'
  end

  def test_without_a_count_one_row_more_is_read
    events(5)
    found = statements { assert_equal 2, Page.new(@model.order(:title), number: 1, per: 2, count: false).next }
    assert_equal 1, found.size
    refute_match(/COUNT/i, found.first)
    page = Page.new(@model.order(:title), number: 3, per: 2, count: false)
    assert_equal [[nil, nil, nil], %w[e]], [[page.count, page.total_pages, page.next], page.map(&:title)]
  end

  def test_a_given_count_is_not_counted
    events(5)
    found = statements { assert_equal 3, Page.new(@model.order(:title), number: 2, per: 2, count: 5).next }
    assert_empty found
  end

  def test_groups_are_counted_as_rows
    events(4)
    grouped = @model.group(:day).select(:day).order(:day)
    assert_equal 1, Page.new(grouped, number: 1, per: 2).count
  end

  def test_a_relation_with_its_own_limit_is_refused
    events(1)
    error = assert_raises(NeverBlock::ConfigurationError) { Page.new(@model.limit(3), number: 1, per: 2) }
    assert_match(/has a limit or an offset; leave them out/, error.message)
  end

  private

  def events(count)
    reason = NeverBlockTest::PageRecords.missing and skip reason
    @model = NeverBlockTest::PageRecords.event
    count.times { |number| @model.create!(title: ("a".ord + number).chr, created_at: Time.at(number)) }
  end

  def statements(&) = NeverBlockTest::PageRecords.statements(&)
end
