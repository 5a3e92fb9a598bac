# frozen_string_literal: true

# slow: it starts Rails (15 s)

require "test_helper"
require "support/rails_app"

# The release of a Rails app in the keys of its cache, and purges after changes of its records.
class RailsReleasesTest < Minitest::Test
  REVISION = <<~RUBY
    env = Rack::MockRequest.env_for("http://example.org/a")
    puts NeverBlock::Cache.default_revision.inspect, Rails.application.config.neverblock.revision.inspect
    Rails.application.app # builds the middleware
    puts ObjectSpace.each_object(NeverBlock::Cache).first.explain(env)
  RUBY
  INVALIDATION = <<~'RUBY'
    Note.class_eval do
      include NeverBlock::CacheInvalidation
      purges_cache tags: -> { ["notes", "note-#{title}"] }
    end
    object = Object.new
    def object.purge_tag(tag) = puts("purged #{tag}")
    NeverBlock::Cache.register(object)
    note = Note.create!(title: "one")
    Note.transaction { note.update!(title: "two") && puts("committing") }
  RUBY

  def setup
    reason = NeverBlockTest::RailsApp.missing and skip reason
  end

  def test_all
    NeverBlockTest::RailsApp.open do |app|
      @app = app
      app.run("bin/rails", "db:prepare")
      app.write("config/initializers/cache.rb", "Rails.application.config.middleware.insert_before 0, NeverBlock::Cache\n")
      assert_equal ["nil", "nil", "key: http://example.org/a"], runner(REVISION).first(3)
      assert_equal ['"kamal-1"', '"kamal-1"', "key: http://example.org/a", "revision: kamal-1"],
        runner(REVISION, "KAMAL_VERSION" => "kamal-1").first(4)
      app.write("REVISION", "4f2a91c\n")
      app.write("config/initializers/revision.rb", "Rails.application.config.neverblock.revision = false if ENV['NO_REVISION']\n")
      assert_equal '"4f2a91c"', runner(REVISION).first
      assert_equal %w[nil false], runner(REVISION, "NO_REVISION" => "1").first(2)
      assert_equal ["purged notes", "purged note-one", "committing", "purged notes", "purged note-two", "purged note-one"], runner(INVALIDATION)
    end
  end

  private

  def runner(code, **environment) = @app.run("bin/rails", "runner", code, environment: environment.transform_keys(&:to_s)).lines(chomp: true)
end
