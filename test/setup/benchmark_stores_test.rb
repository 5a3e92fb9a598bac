# frozen_string_literal: true

# The judging parts of bin/bench stores: rows, contestants, and the documents that a measured process reads and writes.
require_relative "../test_helper"
require_relative "../../benchmark/bench/options"
require_relative "../../benchmark/stores/stores"
require_relative "../../benchmark/stores/child/documents"

class BenchmarkStoresTest < Minitest::Test
  Stores = Bench::Stores

  # A store in a Hash, which may lose or change what it has.
  class Store
    attr_reader :all, :asked

    def initialize(&changed)
      @changed = changed || :itself.to_proc
      @asked = []
    end

    def empty = @all = {}

    def fill(documents) = @all.update(documents)

    def get(key) = (@asked << :get) && @all[key]&.then(&@changed)

    def set(key, text) = (@asked << :set) && @all[key] = text

    def multiget(keys) = (@asked << :multiget) && @all.slice(*keys).transform_values(&@changed)

    def delete(key) = (@asked << :delete) && @all.delete(key)
  end

  def test_rows_have_names_of_their_own
    assert_equal 4 * 8, Stores::ROWS.map(&:id).uniq.size
    assert_equal "MariaDB, json: get of a missing one", row("mariadb_missing").title
    assert_equal [200_000, 20_000, 1_000, 10_000], [row("redis_create").operations(quick: false), row("redis_get").operations(quick: false), row("redis_multiget").operations(quick: false),
      row("redis_create").operations(quick: true)]
    assert_equal %i[default stores database], row("postgres_get").groups
    assert_equal %i[default stores], row("redis_get").groups
  end

  def test_rows_and_contestants_are_chosen
    options = Bench::Options.parse(%w[stores --rows redis_get,postgres_set --contestants threads_32,blocking])
    fields = Stores.new(options).fields.map { |row, contestant| "#{row.id} #{contestant}" }
    assert_equal ["redis_get threads 32", "redis_get blocking", "postgres_set threads 32", "postgres_set blocking"], fields
  end

  {"create" => [:set] * 40, "query" => [:get] * 40, "delete" => [:delete] * 40, "get" => [:get] * 40, "set" => [:set] * 40, "multiget" => [:multiget] * 40, "missing" => [:get] * 40,
   "mixed" => ([:get] * 9 + [:set]) * 4}.each do |work, asked|
    define_method(:"test_#{work}") do
      documents = documents(work)
      40.times { |number| documents.call(number) }
      assert_equal asked, @store.asked
      documents.check
      assert_empty @store.all if work == "delete"
    end
  end

  def test_what_was_not_written_is_an_error
    assert_raises(RuntimeError) { documents("query") { |text| text.sub("Document", "document") }.call(7) }
    assert_raises(RuntimeError) { documents("multiget") { |text| text.sub("red", "blue") }.call(7) }
    lost = documents("query")
    @store.all.delete("document7")
    assert_raises(RuntimeError) { lost.call(7) }
    assert_raises(RuntimeError) { documents("delete").check }
  end

  def test_json_may_be_written_anew
    documents("query") { |text| JSON.pretty_generate(JSON.parse(text).to_a.reverse.to_h) }.call(7)
  end

  private

  def row(id) = Stores::ROWS.find { |row| row.id == id }

  def documents(work, &changed)
    @store = Store.new(&changed)
    Documents.new(@store, work, 40).tap(&:prepare)
  end
end
