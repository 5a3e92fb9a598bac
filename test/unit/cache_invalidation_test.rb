# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"

# What is purged after changes of records, and when.
class CacheInvalidationTest < Minitest::Test
  # Notes what is purged, and how many transactions are open then.
  class Purged
    attr_reader :calls, :open
    attr_accessor :trouble

    # It may be registered until it is collected.
    attr_writer :connection

    def initialize(connection)
      @connection = connection
      @calls = []
      @open = []
    end

    def purge_tag(tag) = note(tag)

    def purge(url) = note(url)

    private

    def note(text)
      @calls << text
      return unless @connection
      @open << @connection.call.open_transactions
      raise trouble if trouble
    end
  end

  # Notes what is reported to Rails.error.
  class Reports
    attr_reader :errors

    def initialize = @errors = []

    def report(error, handled:, severity:, context:, source: nil) = @errors << [error.class, handled, source, context[:model]]
  end

  def self.models
    @models ||= begin
      require "active_record"
      base = Class.new(ActiveRecord::Base) { self.abstract_class = true }
      const_set(:Base, base)
      base.establish_connection(adapter: "sqlite3", database: ":memory:", pool: 1)
      base.connection_pool.with_connection do |connection|
        connection.create_table(:authors) { |table| table.string(:name) && table.timestamps }
        connection.create_table(:posts) do |table|
          table.string(:title)
          table.string(:type)
          table.json(:extra)
          table.boolean(:published, default: false)
          table.integer(:author_id)
          table.timestamps
        end
      end
      const_set(:Author, Class.new(base) { include NeverBlock::CacheInvalidation })
      base
    end
  end

  def setup
    skip "sqlite3 and activerecord are not among the gems here" unless %w[sqlite3 activerecord].all? { |name| Gem.loaded_specs.key?(name) }
    require "neverblock/cache_invalidation"
    @base = self.class.models
    @base.descendants.each { |model| model.delete_all if model.table_exists? }
    @purged = Purged.new(-> { @base.connection_pool.active_connection? })
    NeverBlock::Cache.register(@purged)
    @reports = Reports.new
    ActiveSupport.error_reporter.subscribe(@reports)
  end

  def teardown
    return unless @purged
    @purged.trouble = @purged.connection = nil
    ActiveSupport.error_reporter.unsubscribe(@reports)
  end

  def test_tags_are_purged_after_each_kind_of_change
    posts = model { purges_cache tags: -> { ["posts", "post-#{id}"] } }
    post = posts.create!(title: "a")
    id = post.id
    assert_equal ["posts", "post-#{id}"], purged
    post.update!(title: "b")
    assert_equal ["posts", "post-#{id}"], purged
    post.touch
    assert_equal ["posts", "post-#{id}"], purged
    post.destroy
    assert_equal ["posts", "post-#{id}"], purged
    assert_equal [0], @purged.open.uniq, "only after the commit"
  end

  def test_the_forms_of_tags_and_urls
    posts = model do
      purges_cache tags: "one"
      purges_cache tags: %w[two three]
      purges_cache tags: :own_tags
      purges_cache tags: ->(post) { ["title-#{post.title}", nil, [["nested"]]] }
      purges_cache urls: -> { "https://example.org/posts/#{title}" }
      define_method(:own_tags) { ["own-#{title}"] }
      private :own_tags
    end
    posts.create!(title: "a")
    assert_equal %w[one two three own-a title-a nested https://example.org/posts/a], purged
  end

  def test_events_and_conditions
    posts = model do
      purges_cache tags: "created", on: :create
      purges_cache tags: "gone", on: %i[update destroy], unless: -> { title == "keep" }
      purges_cache tags: "will", on: :update, if: :published_changed?
      purges_cache tags: "has", on: :update, if: [:saved_change_to_published?, -> { true }]
      purges_cache tags: "touched", on: :touch
    end
    post = posts.create!(title: "keep")
    assert_equal %w[created], purged
    post.update!(published: true)
    assert_equal %w[will has], purged
    posts.find(post.id).update!(title: "other")
    assert_equal %w[gone], purged
    posts.find(post.id).touch
    assert_equal %w[touched], purged
  end

  def test_nothing_is_purged_after_a_rollback
    posts = model { purges_cache tags: "posts" }
    posts.transaction do
      posts.create!(title: "a")
      raise ActiveRecord::Rollback
    end
    assert_empty purged
    assert_raises(RuntimeError) { posts.transaction { posts.create!(title: "a") && raise("trouble") } }
    posts.create!(title: "b")
    assert_equal %w[posts], purged
  end

  def test_a_save_that_is_stopped_purges_nothing
    posts = model do
      purges_cache tags: "posts"
      before_save { throw :abort }
      before_destroy { throw :abort }
    end
    refute posts.new(title: "a").save
    posts.insert({title: "a"})
    refute posts.first.destroy
    assert_empty purged
  end

  def test_many_records_of_a_transaction_purge_each_tag_once
    posts = model { purges_cache tags: -> { ["posts", "title-#{title}"] } }
    posts.transaction do
      20.times { |number| posts.create!(title: (number % 2).to_s) }
      assert_empty @purged.calls
    end
    assert_equal %w[posts title-0 title-1], purged
  end

  def test_nested_transactions_purge_after_the_outermost_commit
    posts = model { purges_cache tags: -> { ["posts", "title-#{title}"] } }
    posts.transaction do
      posts.transaction(requires_new: true) { posts.create!(title: "a") }
      posts.transaction(requires_new: true) do
        posts.create!(title: "never")
        raise ActiveRecord::Rollback
      end
      posts.transaction { posts.create!(title: "b") }
      posts.transaction(requires_new: true) { posts.transaction(requires_new: true) { posts.create!(title: "c") } }
      assert_empty @purged.calls
    end
    assert_equal %w[posts title-a title-b title-c], purged.sort
    assert_equal [0], @purged.open.uniq
  end

  def test_a_savepoint_in_a_transaction_that_is_rolled_back_purges_nothing
    posts = model { purges_cache tags: "posts" }
    posts.transaction do
      posts.transaction(requires_new: true) { posts.create!(title: "a") }
      raise ActiveRecord::Rollback
    end
    assert_empty purged
  end

  # As in a test with transactional fixtures.
  def test_within_a_transaction_of_a_test_each_commit_purges
    posts = model { purges_cache tags: -> { "title-#{title}" } }
    posts.transaction(joinable: false) do
      posts.create!(title: "a")
      assert_equal %w[title-a], purged
      posts.transaction do
        posts.create!(title: "b")
        posts.create!(title: "b")
        assert_empty purged
      end
      assert_equal %w[title-b], purged
    end
    assert_empty purged
  end

  def test_an_update_purges_what_the_record_was_part_of
    posts = model { purges_cache tags: -> { ["author-#{author_id}", "kind-#{extra&.fetch("kind")}", "title-#{title}"] } }
    post = posts.create!(title: "a", author_id: 1, extra: {kind: "x"})
    purged
    post.update!(author_id: 2)
    assert_equal %w[author-1 author-2 kind-x title-a], purged.sort
    post.extra["kind"] = "y"
    post.save!
    assert_equal %w[author-2 kind-x kind-y title-a], purged.sort
  end

  # Two objects of one row: Active Record runs the callbacks after the commit for one of them only.
  def test_all_states_that_a_row_had_in_a_transaction_are_purged
    posts = model { purges_cache tags: -> { "author-#{author_id}" } }
    post = posts.create!(author_id: 1)
    purged
    posts.transaction do
      post.update!(author_id: 2)
      posts.find(post.id).update!(author_id: 3)
    end
    assert_equal %w[author-1 author-2 author-3], purged.sort
  end

  def test_a_destroyed_record_purges_what_is_stored_and_what_it_had_become
    posts = model { purges_cache tags: -> { "author-#{author_id}" } }
    post = posts.create!(author_id: 1)
    purged
    post.author_id = 2
    post.destroy
    assert_equal %w[author-1 author-2], purged.sort
  end

  def test_the_copy_of_the_record_as_it_was_finds_its_associations
    ann, bob = %w[Ann Bob].map { |name| self.class::Author.create!(name:) }
    posts = model do
      belongs_to :author, class_name: "CacheInvalidationTest::Author"
      purges_cache tags: -> { "by-#{author.name}" }
    end
    post = posts.create!(author: ann)
    purged
    post.update!(author: bob)
    assert_equal %w[by-Ann by-Bob], purged.sort
  end

  def test_a_parent_that_is_touched_is_purged
    authors = self.class.const_set(:"Author#{name}", model("authors") { purges_cache tags: -> { "author-#{id}" }, on: :touch })
    posts = model do
      belongs_to :author, class_name: authors.name, touch: true
    end
    author = authors.create!(name: "Ann")
    posts.transaction { 2.times { posts.create!(author:) } }
    assert_equal ["author-#{author.id}"], purged
  end

  def test_a_subclass_inherits_and_adds
    posts = model { purges_cache tags: "posts" }
    notes = Class.new(posts) do
      def self.name = "Note"
      def self.sti_name = "Note"
      purges_cache tags: "notes"
    end
    notes.create!(title: "a")
    assert_equal %w[posts notes], purged
    posts.create!(title: "a")
    assert_equal %w[posts], purged
  end

  def test_a_purge_that_fails_does_not_fail_the_save
    posts = model { purges_cache tags: -> { %w[a b] }, urls: -> { ["https://example.org/"] } }
    @purged.trouble = RuntimeError.new("the store is down")
    assert_predicate posts.create!(title: "a"), :persisted?
    assert_equal %w[a b https://example.org/], purged
    assert_equal [[RuntimeError, true, "neverblock", "Post"]], @reports.errors, "Rails tells each error once"
  end

  def test_tags_that_can_not_be_found_do_not_fail_the_save_nor_other_tags
    posts = model do
      purges_cache tags: -> { raise "no tags" }
      purges_cache tags: -> { ["good", :symbol, "a, b", ""] }
      purges_cache urls: -> { ["/relative", "https://example.org/"] }
      purges_cache tags: "doubtful", if: -> { raise "unknown" }
    end
    logged = logs { assert_predicate posts.create!(title: "a"), :persisted? }
    assert_equal %w[good doubtful https://example.org/], purged
    assert_equal 6, @reports.errors.size
    assert_match(/neverblock: after a change of Post the cache was not purged as it should be.*: no tags \(RuntimeError\)/, logged)
    assert_match(/"a, b" is not a tag/, logged)
  end

  # Active Record does not run the other callbacks then.
  def test_an_error_in_a_callback_after_the_commit_keeps_nothing_from_being_purged
    posts = model { purges_cache tags: "posts" }
    failing = model("authors") { after_commit { raise "trouble" } }
    assert_raises(RuntimeError) do
      posts.transaction do
        failing.create!(name: "Ann")
        posts.create!(title: "a")
      end
    end
    assert_equal %w[posts], purged
  end

  def test_records_can_be_marshalled_as_before
    posts = model { purges_cache tags: "posts" }
    post = posts.create!(title: "a")
    posts.transaction { assert_empty post.tap { post.update!(title: "b") }.instance_variables.grep(/neverblock/) }
  end

  def test_wrong_declarations_are_refused
    {
      {} => /nothing\. Name tags: or urls:/,
      {tag: "a"} => /tag:\. Its options are tags/,
      {tags: 7} => /tags: 7, which is neither/,
      {tags: [:a]} => /tags: \[:a\], in which not all are Strings/,
      {tags: "a", on: :save} => /on: :save\. Events are create, update, destroy, touch/,
      {tags: "a", on: []} => /on: nil/,
      {tags: "a", if: "x"} => /if: "x", which is neither/,
      {tags: "a", when: :x} => /when:\. Its options are/
    }.each do |options, message|
      error = assert_raises(NeverBlock::ConfigurationError) { model { purges_cache(**options) } }
      assert_match(/\Apurges_cache got .*#{message}/, error.message)
    end
  end

  def test_only_models_can_include_it
    error = assert_raises(NeverBlock::ConfigurationError) { Class.new { include NeverBlock::CacheInvalidation } }
    assert_match(/for models of Active Record 7\.2 or later/, error.message)
  end

  private

  def model(table = "posts", &block)
    Class.new(@base) do
      self.table_name = table
      define_singleton_method(:name) { table.singularize.capitalize } if table == "posts"
      include NeverBlock::CacheInvalidation

      class_eval(&block)
    end
  end

  # @return [Array<String>] what has been purged since the last call
  def purged = @purged.calls.slice!(0..)

  def logs
    before = ActiveRecord::Base.logger
    ActiveRecord::Base.logger = Logger.new(text = StringIO.new)
    yield
    text.string
  ensure
    ActiveRecord::Base.logger = before
  end
end
