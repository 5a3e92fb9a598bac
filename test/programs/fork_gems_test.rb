# frozen_string_literal: true

# slow: it starts clusters, databases and caches

require "test_helper"
require "support/memcached"
require "support/postgres"
require "support/redis"
require "support/serve_process"

# A connection that the app has opened while the template loads it: the table in docs/fork-signals-gc.md. Each app
# reports the server's connection that it uses.
class ForkGemsTest < Minitest::Test
  # Each answer: the worker, its connection, the template's connection.
  APP = <<~RUBY
    ask = -> { %<ask>s }
    template = ask.call
    run ->(_env) { [200, {}, ["\#{Process.pid} \#{ask.call} \#{template}"]] }
  RUBY

  def test_redis_client_opens_its_own
    with("redis-client", NeverBlockTest::RedisServer) do |redis|
      assert_own_connections("require 'redis_client'\nCLIENT = RedisClient.config(path: #{redis.path.dump}).new_client", "CLIENT.call('CLIENT', 'ID')")
    end
  end

  # memcached doesn't identify connections, so the test uses the socket's inode.
  def test_dalli_opens_its_own
    with("dalli", NeverBlockTest::MemcachedServer) do |memcached|
      ask = "CACHE.set('key', Process.pid) && ObjectSpace.each_object(Dalli::Socket::UNIX).reject(&:closed?).map { |socket| socket.stat.ino }.join('+')"
      assert_own_connections("require 'dalli'\nDalli.logger.level = 4\nCACHE = Dalli::Client.new(#{memcached.path.dump})", ask)
    end
  end

  def test_active_record_opens_its_own
    with("activerecord", NeverBlockTest::PostgresServer) do |postgres|
      assert_own_connections("require 'active_record'\nActiveRecord::Base.establish_connection(#{postgres.url.dump})",
        "ActiveRecord::Base.connection_pool.with_connection { |connection| connection.select_value('select pg_backend_pid()') }")
    end
  end

  ASK_POSTGRES = "$postgres.exec('select pg_backend_pid()').getvalue(0, 0)"

  def test_pg_shares_the_template_s
    with("pg", NeverBlockTest::PostgresServer) do |postgres|
      answers = ask_both("require 'pg'\n$postgres = PG.connect(#{postgres.url.dump})", ASK_POSTGRES)
      assert_equal 1, answers.flat_map { |_, own, template| [own, template] }.uniq.size, "pg sees to forks itself now: the docs should say so"
    end
  end

  def test_pg_with_hooks_has_its_own
    with("pg", NeverBlockTest::PostgresServer) do |postgres|
      hooks = "before_fork { $postgres.close }\nafter_fork { $postgres = PG.connect(#{postgres.url.dump}) }\n"
      assert_own_connections("require 'pg'\n$postgres = PG.connect(#{postgres.url.dump})", ASK_POSTGRES, hooks)
    end
  end

  private

  def with(gem, peer)
    skip "#{gem} is not among the gems here" unless Gem.loaded_specs.key?(gem)
    reason = peer.missing and skip reason
    started = peer.start
    yield started
  ensure
    started&.stop
  end

  def assert_own_connections(...)
    answers = ask_both(...)
    own = answers.map { |_, connection, _| connection }
    assert_equal own, own.uniq, "the workers' connections"
    refute_includes own, answers.first.last, "the template's"
  end

  # @return [Array<Array<String>>] one answer per worker
  def ask_both(before, ask, hooks = "")
    rackup = "#{before}\n#{format(APP, ask:)}"
    NeverBlockTest::ServeProcess.open(rackup, config: "workers 2\nbind 'tcp://127.0.0.1:0'\n#{hooks}", gems: true) do |served|
      served.addresses
      answers = {}
      served.until_true("an answer of each") do
        pid, *rest = served.body("/").split
        answers[pid] = [pid, *rest]
        answers.size == 2
      end
      answers.values
    end
  end
end
