# frozen_string_literal: true

require "test_helper"
require "support/page_records"

class PagesKeysetPageTest < Minitest::Test
  KeysetPage = NeverBlock::Pages::KeysetPage
  Keyset = NeverBlock::Pages::Keyset
  Cursor = NeverBlock::Pages::Cursor
  RowComparison = NeverBlock::Pages::RowComparison
  NotFound = NeverBlock::Pages::NotFound
  ConfigurationError = NeverBlock::ConfigurationError

  def setup
    reason = NeverBlockTest::PageRecords.missing and skip reason
    @model = NeverBlockTest::PageRecords.event
  end

  def test_the_pages_together_are_the_list
    rows(25)
    orders = [
      {id: :asc}, {id: :desc}, {created_at: :asc, id: :asc}, {created_at: :desc, id: :desc}, {created_at: :desc, id: :asc},
      {pinned: :desc, day: :asc, price: :desc, title: :asc, id: :desc}, {level: :desc, id: :asc}, {happened_at: :asc, id: :asc}
    ]
    orders.each do |order|
      relation = @model.order(order)
      assert_equal relation.map(&:id), walk(relation, by: order.keys).flatten, order.inspect
      assert_equal relation.map(&:id), walk(@model.all, by: order).flatten, order.inspect
    end
  end

  def test_both_forms_of_the_comparison_select_the_same_rows
    rows(25)
    keyset = Keyset.new(@model.order(:created_at, :id), by: %i[created_at id])
    @model.find_each do |event|
      values = keyset.values(event)
      ids = [true, false].map do |rows|
        keyset.relation.where(RowComparison.new(keyset, rows:).after(values)).ids
      end
      assert_equal ids.first, ids.last
    end
  end

  def test_an_index_serves_both_forms
    rows(3)
    keyset = Keyset.new(@model.order(:created_at, :id), by: %i[created_at id])
    [true, false].each do |rows|
      relation = keyset.relation.where(RowComparison.new(keyset, rows:).after([Time.at(0), 1])).limit(2)
      plan = @model.with_connection { |connection| connection.select_rows("EXPLAIN QUERY PLAN #{relation.to_sql}") }
      assert_match(/SEARCH events USING .*INDEX .*created_at/, plan.join(" "))
      refute_match(/TEMP B-TREE/, plan.join(" "))
    end
  end

  def test_rows_that_come_and_go_move_no_page
    rows(6)
    first = page(@model.order(:id))
    second = page(@model.order(:id), cursor: first.next).map(&:id)
    @model.where(id: first.map(&:id)).delete_all
    assert_equal second, page(@model.order(:id), cursor: first.next).map(&:id)
  end

  def test_a_page_knows_what_it_can_know
    rows(4)
    first = page(@model.order(:id))
    last = page(@model.order(:id), cursor: first.next)
    assert_equal [true, false, 2, nil, nil, nil], [first.first?, first.last?, first.size, first.count, first.total_pages, first.previous]
    assert_equal [false, true, nil], [last.first?, last.last?, last.next]
    assert_equal 1, NeverBlockTest::PageRecords.statements { page(@model.order(:id)).then { |page| [page.next, page.to_a] } }.size
  end

  def test_an_empty_list_has_a_first_page_and_no_other
    assert_empty page(@model.order(:id)).to_a
    rows(2)
    cursor = Cursor.encode(Keyset.new(@model.order(:id), by: [:id]), [@model.maximum(:id)])
    assert_raises(NotFound) { page(@model.order(:id), cursor:) }
  end

  def test_no_cursor_but_those_that_were_made_is_taken
    rows(4)
    relation = @model.order(:created_at, :id)
    sign, time, id = JSON.parse(decoded(page(relation, by: %i[created_at id]).next))
    wrong = [
      [], [sign], [sign, time], [sign, time, id, 1], [sign + 1, time, id], [sign, id, time], [sign, time, id.to_s], [sign, nil, id],
      [sign, time, nil], [sign, time, id.to_f], [sign, time, 2**63], [sign, time, -2**64], [sign, time, [id]], [sign, time, {"a" => 1}],
      [sign, "now", id], [sign, "2026-02-30T00:00:00.000000Z", id], [sign, "0000-01-01T00:00:00.000000Z", id], [sign, "infinity", id],
      [sign, "#{time}\n", id], [sign, time.sub("Z", "+00:00"), id], [sign, "", id], [sign, time, true], {"a" => 1}, "a", 1, nil
    ].map { |value| encoded(JSON.generate(value)) }
    good = [sign, time, id]
    wrong += ["[#{sign}, #{time.inspect},#{id}]", "[#{sign},#{time.inspect},#{id}]x", "[[[[", "\xff", "[#{sign},#{time.inspect},NaN]", "[#{sign},#{time.inspect},#{"9" * 500}]"].map { |text| encoded(text) }
    wrong += ["", "abc", "=", "a b", "🙂", "a" * 5000, "#{encoded(JSON.generate(good))}=", "#{encoded(JSON.generate(good))}\n", "%00", "../x", nil.to_s, 5, ["a"]]
    wrong.each { |cursor| assert_raises(NotFound, cursor.inspect) { page(relation, by: %i[created_at id], cursor:) } }
    assert page(relation, by: %i[created_at id], cursor: encoded(JSON.generate(good)))
  end

  def test_a_cursor_of_another_order_is_refused
    rows(4)
    cursor = page(@model.order(:id)).next
    assert_raises(NotFound) { page(@model.order(id: :desc), cursor:) }
    assert_raises(NotFound) { page(@model.order(:level, :id), by: %i[level id], cursor:) }
  end

  def test_text_in_a_cursor_is_data
    rows(3)
    text = "'; DROP TABLE events; --"
    @model.create!(title: text, created_at: Time.now)
    walk(@model.order(:title, :id), by: %i[title id])
    keyset = Keyset.new(@model.order(:title, :id), by: %i[title id])
    assert_equal [text, 1], Cursor.decode(keyset, Cursor.encode(keyset, [text, 1]))
    assert_raises(NotFound) { Cursor.decode(keyset, encoded(JSON.generate([Zlib.crc32(keyset.to_s), "a\0b", 1]))) }
    assert_operator @model.count, :>, 3
  end

  def test_a_cursor_is_bounded
    @model.create!(title: "x" * 3000, created_at: Time.now)
    @model.create!(title: "y", created_at: Time.now)
    error = assert_raises(ConfigurationError) { KeysetPage.new(@model.order(:title, :id), by: %i[title id], per: 1).next }
    assert_match(/too long for a URL/, error.message)
  end

  def test_orders_without_one_place_for_each_row_are_refused
    {
      [@model.order(:created_at), [:created_at]] => /may be equal for two rows; add the primary key \(id\)/,
      [@model.order(:id), %i[created_at id]] => /is not the relation's order, id asc/,
      [@model.order(id: :desc), {id: :asc}] => /is not the relation's order, id desc/,
      [@model.order(:id, :created_at), %i[created_at id]] => /is not the relation's order/,
      [@model.order(Arel.sql("id")), [:id]] => /only columns of events/,
      [@model.order(:closed_at, :id), %i[closed_at id]] => /closed_at may be NULL/,
      [@model.order(:heat, :id), %i[heat id]] => /of the type :float/,
      [@model.all, %i[nothing id]] => /no column "nothing"/,
      [@model.all, []] => /is not a list of columns/,
      [@model.all, {id: :up}] => /is not a list of columns/,
      [@model.limit(3), [:id]] => /has a limit/,
      [[1], [:id]] => /is neither a relation/
    }.each do |(relation, by), message|
      assert_match(message, assert_raises(ConfigurationError, message.inspect) { page(relation, by:) }.message)
    end
    assert_match(/nulls: :last is neither/, assert_raises(ConfigurationError) { page(@model.all, nulls: :last) }.message)
  end

  def test_a_type_that_changes_values_is_refused
    rows(3)
    error = assert_raises(ConfigurationError) { page(@model.order(:notes, :id), by: %i[notes id]).next }
    assert_match(/the type of notes changes its values/, error.message)
  end

  def test_rows_with_null_are_left_out_if_asked_for
    rows(4)
    @model.order(:id).first(3).each { |event| event.update!(closed_at: Time.at(event.id)) }
    relation = @model.order(:closed_at, :id)
    assert_equal @model.where.not(closed_at: nil).order(:id).ids, walk(relation, by: %i[closed_at id], nulls: :omit).flatten
  end

  private

  def page(relation, by: [:id], cursor: nil, **options) = KeysetPage.new(relation, by:, per: 2, cursor:, **options)

  # @return [Array<Array<Integer>>] ids of each page
  def walk(relation, **options)
    ids = []
    cursor = nil
    loop do
      page = KeysetPage.new(relation, per: 4, cursor:, **options)
      ids << page.map(&:id)
      return ids unless (cursor = page.next)
    end
  end

  def rows(count)
    random = Random.new(1)
    count.times do |number|
      @model.create!(title: %w[a b ä].sample(random:), created_at: Time.utc(2026, 1, 1) + Rational(random.rand(5), 1_000_000), level: random.rand(2),
        pinned: random.rand(2), day: Date.new(2026, 1, 1 + random.rand(2)), price: random.rand(3)/4r, notes: "n")
    end
  end

  def encoded(text) = [text].pack("m0").tr("+/", "-_").delete("=")

  def decoded(cursor) = cursor.tr("-_", "+/").ljust((cursor.size + 3) / 4 * 4, "=").unpack1("m0")
end
