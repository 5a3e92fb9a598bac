# frozen_string_literal: true

# slow: it starts servers (10 s)

require "test_helper"
require "support/database"
require "support/prometheus_text"
require "support/serve_process"
require "json"

# The PostgreSQL pools of a server's workers in its /stats and /metrics.
class PostgresMetricsTest < Minitest::Test
  include NeverBlockTest::Database

  APP = <<~RUBY
    require "neverblock/postgres"
    DATABASE = NeverBlock::Postgres.new(ENV.fetch("NB_URL"), name: "shop", connections: 3, timeout: 0.3)
    run ->(env) {
      case env["PATH_INFO"]
      when "/read" then DATABASE.exec("select 1")
      when "/hold" then DATABASE.transaction { |connection| connection.exec("select 'held'") && sleep }
      when "/wait" then DATABASE.transaction { |connection| connection.exec("select 2") }
      end
      [200, {}, ["done"]]
    }
  RUBY

  # The supervisor has loaded nothing of PostgreSQL.
  [0, 1].each do |workers|
    define_method(:"test_a_pool_of_an_app_with_#{workers}_workers") do
      serve(workers) do |served|
        3.times { assert_match(/done\z/, served.get("/read")) }
        holders = Array.new(2) { served.connect.tap { |socket| socket << "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n" } }
        served.until_true("both") { pool(served)&.dig(:states, :leased) == 2 && pool(served)[:holders].all? { |holder| holder[:rests] } }
        figures = pool(served)
        assert_equal [3, 0], figures.values_at(:size, :queued)
        figures[:holders].each do |holder|
          assert_equal ["leased", "select 'held'", "/hold", false], holder.values_at(:state, :statement, :task, :ended)
          assert_match(/config\.ru:6\z/, holder[:at])
        end
        assert_match(%r{\AHTTP/1.1 500 }, served.get("/wait"))
        served.until_true("the error's line") { served.errors.include?("are held") } # a thread writes the log
        assert_match(%r{2 of 3 are held \(a transaction that began with read \(/hold\), for \d+\.\d s, which has been idle for .* after select 'held', now at .*config\.ru:6; }, served.errors)
        served.until_true("its count") { metrics(served)["neverblock_postgres_wait_timeouts_total", pool: "shop"] == 1 }
        all = metrics(served)
        assert_equal [3, 2], [all["neverblock_postgres_connections_limit", pool: "shop", worker: 0], all["neverblock_postgres_connections", pool: "shop", state: "leased"]]
        assert_operator all["neverblock_postgres_statements_total", pool: "shop"], :>=, 3
        assert_operator all["neverblock_postgres_held_oldest_seconds", pool: "shop"], :>, 0.3
        assert_equal "counter", all.types["neverblock_postgres_retries_total"]
      ensure
        holders&.each(&:close)
      end
    end
  end

  private

  def serve(workers)
    Dir.mktmpdir("nb") do |folder|
      @health = "#{folder}/health"
      config = "workers #{workers}\nbind 'tcp://127.0.0.1:0'\nhealth 'unix://#{@health}'\n"
      NeverBlockTest::ServeProcess.open(APP, config:, environment: {"NB_URL" => url}, gems: true) do |served|
        served.addresses
        yield served
      end
    end
  end

  def pool(served) = JSON.parse(probe(served, "/stats"), symbolize_names: true)[:workers].first.dig(:stats, :runtime, :postgres, :shop)

  def metrics(served) = NeverBlockTest::PrometheusText.new(probe(served, "/metrics"))

  def probe(_served, path)
    socket = UNIXSocket.new(@health)
    socket.timeout = NeverBlockTest::LIMIT
    socket << "GET #{path} HTTP/1.0\r\n\r\n"
    socket.read.split("\r\n\r\n", 2).last
  ensure
    socket&.close
  end
end
