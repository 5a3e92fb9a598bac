# frozen_string_literal: true

require "test_helper"
require "neverblock/server"
require "neverblock/server/metrics"
require "neverblock/server/runtime_stats"
require "support/prometheus_text"

class ServerMetricsTest < Minitest::Test
  Subject = Data.define(:stats, :live?, :ready?)

  def text(*workers, **more)
    stats = {version: "1", ruby: "3", engine: "epoll", workers:, **more}
    NeverBlock::Server::Metrics.new(Subject.new(stats, true, false)).text
  end

  def read(...) = NeverBlockTest::PrometheusText.new(text(...))

  def worker(stats = {}, **more) = {number: 0, pid: 7, state: :serving, age: 1.5, stats:, **more}

  def test_the_state_of_all
    metrics = read(worker, worker(number: 1, pid: 8, state: "leaving"))
    assert_equal 1, metrics["neverblock_info", version: "1", ruby: "3", engine: "epoll"]
    assert_equal [1, 0], [metrics["neverblock_live"], metrics["neverblock_ready"]]
    assert_equal [0, 1], [metrics, read(load: {result: :failed})].map { |one| one["neverblock_last_load_failed"] }
    assert_equal [0, 1, 1], %w[starting serving leaving].map { |state| metrics["neverblock_workers", state:] }
    assert_equal 1.5, metrics["neverblock_worker_age_seconds", worker: 1, pid: 8]
  end

  def test_sidecars
    jobs = {command: "bin/jobs", state: :running, restarts: 0}
    metrics = read(worker, sidecars: [jobs, {**jobs, state: :down, restarts: 4}])
    assert_equal [1, 0], [0, 1].map { |number| metrics["neverblock_sidecar_up", sidecar: "bin/jobs", number:] }
    assert_equal 4, metrics["neverblock_sidecar_restarts_total", sidecar: "bin/jobs", number: 1]
  end

  def test_two_workers_of_one_number
    metrics = read(worker({requests: 3}), worker({requests: 4}, pid: 8))
    assert_equal [7, 4], [metrics["neverblock_requests_total"], metrics["neverblock_requests_total", pid: 8]]
  end

  def test_refusals_by_reason
    metrics = read(worker({refused: {bad_request: 2, queue_limit: 3}}))
    assert_equal [2, 5], [metrics["neverblock_requests_refused_total", reason: "bad_request", pid: 7], metrics["neverblock_requests_refused_total"]]
  end

  def test_a_worker_that_has_told_nothing_yet
    assert_nil read(worker({}, pid: nil))["neverblock_requests_total"]
  end

  # Names are stable: a new counter gets a new name.
  def test_each_figure_of_a_server_has_a_name
    server = NeverBlock::Server.new(->(_env) { [200, {}, []] }, bind: "tcp://127.0.0.1:0", error_log: StringIO.new)
    counted = NeverBlock.run(exit: :cancel) { server.start && server.stats }
    server.stop(timeout: 0)
    assert_equal [], counted.select { |_, value| Numeric === value }.keys - NeverBlock::Server::Metrics::SERVER.keys
  end

  def test_each_figure_of_the_runtime_has_a_name
    stats = NeverBlock.run { NeverBlock.stats }
    assert_equal [], stats[:loops].first.keys - [:engine] - NeverBlock::Server::Metrics::LOOP.keys
    assert_equal [], stats[:pools].values.flat_map(&:keys).uniq - NeverBlock::Server::Metrics::POOL.keys
    assert_equal [], stats[:tasks].keys - NeverBlock::Server::Metrics::TASKS.keys
    metrics = read(worker({runtime: stats}))
    assert_equal stats[:pools][:offload][:limit], metrics["neverblock_pool_threads_limit", pool: "offload", worker: 0]
    assert_equal stats[:tasks][:unfinished], metrics["neverblock_tasks"]
    assert_equal stats[:loops].sum { |one| one[:switches] }, metrics["neverblock_loop_switches_total"]
  end

  # A worker's report of a pool.
  POOL = {
    size: 12, connections: 9, opening: 1, idle: 3, busy: 6, held: 4, in_flight: 14, queued: 2, queued_oldest: 0.83, held_oldest: 1.2,
    states: {idle: 3, shared: 2, alone: 1, leased: 2, restoring: 1, opening: 1}, statements: {shared: 900, alone: 31, leased: 8},
    waits: {count: 5, seconds: 1.5, timeouts: 1, refused: 0}, retries: {unknown: 1, renamed: 2, moved: 3}, displaced: 4, timed_out: 0, leaks: 0, audits: 7, restored: 6, opened: 10, lost: 1,
    slow: {threshold: 0.014, count: 3, shapes: [{statement: "select", average: 0.5}]}, processor: nil, holders: [{state: "leased", age: 1.2}]
  }.freeze

  # As NeverBlock.stats tells it.
  CONNECTION_POOL = {
    size: 20, idle: 3, held: 2, waiting: 1, held_oldest: 0.2, opened: 6, closed: 1, interrupted: 1, waits: 4, wait_seconds: 0.5, timeouts: 2, refused: 0, circuit_open: true
  }.freeze

  def test_a_connection_pool
    metrics = read(worker({runtime: {connection_pools: {sessions: CONNECTION_POOL, other: {**CONNECTION_POOL, circuit_open: false, held_oldest: nil}}}}))
    labels = {worker: 0, pid: 7}
    assert_equal [20, 0.5, 1], %w[connections_limit wait_seconds_total circuit_open].map { |name| metrics["neverblock_connection_pool_#{name}", pool: "sessions", **labels] }
    assert_equal 0, metrics["neverblock_connection_pool_circuit_open", pool: "other", **labels]
  end

  def test_each_figure_of_a_connection_pool_has_a_name
    pool = NeverBlock::ConnectionPool.new(name: "named") { Object.new }
    assert_equal pool.stats.keys.sort, NeverBlock::Server::Metrics::CONNECTION_POOL.keys.sort
    assert_equal pool.stats.keys.sort, CONNECTION_POOL.keys.sort
  end

  def test_a_pool_of_postgresql
    metrics = read(worker({runtime: {postgres: {"shop@db": POOL, reports: {**POOL, queued: 7}}}}))
    labels = {pool: "shop@db", worker: 0, pid: 7}
    assert_equal [12, 3, 2], [metrics["neverblock_postgres_connections_limit", **labels], metrics["neverblock_postgres_connections", state: "idle", **labels], metrics["neverblock_postgres_connections", state: "leased", **labels]]
    assert_equal [900, 0.83, 1.5], [metrics["neverblock_postgres_statements_total", connection: "shared", **labels], metrics["neverblock_postgres_queued_oldest_seconds", **labels], metrics["neverblock_postgres_wait_seconds_total", **labels]]
    assert_equal [2, 9], [metrics["neverblock_postgres_retries_total", reason: "renamed", **labels], metrics["neverblock_postgres_queued"]]
  end

  def test_another_source_of_that_name
    assert_equal 3, read(worker({runtime: {postgres: {hits: 3}}}))["neverblock_postgres_hits"]
    assert_equal 4, read(worker({runtime: {postgres: [{shop: {size: 4}}]}}))["neverblock_postgres_shop_size"]
  end

  def test_each_figure_of_a_pool_of_postgresql_has_a_name
    skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
    require "neverblock/postgres"
    database = NeverBlock::Postgres.new("postgresql:///named_by_the_test")
    stats = NeverBlock.stats[:postgres].fetch("named_by_the_test")
    known = NeverBlock::Server::Metrics::Postgres::ROWS.map { |row| row[3].first }
    # counts by state have sums, and `held` includes promised ones; details of single connections are for /stats
    assert_equal %i[busy connections held holders idle opening processor], (stats.keys - known).sort
    assert_equal POOL.keys.sort, stats.keys.sort
    assert_equal stats[:waits].keys, known.zip(NeverBlock::Server::Metrics::Postgres::ROWS).filter_map { |key, row| row[3][1] if key == :waits }
  ensure
    database&.close
  end

  # As NeverBlock::Proxy tells it.
  UPSTREAM = {
    in_flight: 2, out: true, out_seconds: 0.7, trying: false, down: false, requests: {"2xx": 90, failed: 3}, connect_failures: 1, retries: 4, tunnels: 5, taken_out: 6,
    checks_passed: 9, checks_failed: 10,
    connections: {open: 3, idle: 1, held: 2, waiting: 7, opened: 8, reused: 82}
  }.freeze

  def test_an_upstream
    metrics = read(worker({runtime: {proxy: {"http://a:1": UPSTREAM, "http://b:2": {**UPSTREAM, out: false}}}}))
    labels = {upstream: "http://a:1", worker: 0, pid: 7}
    assert_equal [90, 3, 1, 8], [metrics["neverblock_upstream_requests_total", outcome: "2xx", **labels], metrics["neverblock_upstream_requests_total", outcome: "failed", **labels],
      metrics["neverblock_upstream_out", **labels], metrics["neverblock_upstream_connections_opened_total", **labels]]
    assert_equal 0.7, metrics["neverblock_upstream_out_seconds", **labels]
    assert_equal 3, read(worker({runtime: {proxy: {hits: 3}}}))["neverblock_proxy_hits"]
    require "neverblock/proxy"
    assert_equal UPSTREAM.keys, NeverBlock::Proxy.new("http://a:1").stats.values.first.keys
  end

  # As NeverBlock::Cache tells it, with a store that several hosts share.
  CACHE = {
    entries: 12, keys: 11, bytes: 4096, limit: 1 << 20, evicted: 1, refused: 2, errors: 3, fetching: 4, waiting: 5, uncollapsible: 6, unattended: 9, released: 10,
    requests: {hit: 90, stale: 1, revalidated: 2, miss: 12, collapsed: 40, pass: 3, bypass: 7, failed: 1}, lease_waits: 8
  }.freeze

  def test_a_cache
    metrics = read(worker({runtime: {caches: {pages: CACHE, remote: {**CACHE, entries: nil}}}}))
    labels = {cache: "pages", worker: 0, pid: 7}
    assert_equal [90, 40, 1], %w[hit collapsed stale].map { |outcome| metrics["neverblock_cache_requests_total", outcome:, **labels] }
    assert_equal [12, 4096, 3, 4, 5], %w[entries bytes store_errors_total fetches waiting].map { |name| metrics["neverblock_cache_#{name}", **labels] }
    assert_equal 12, metrics["neverblock_cache_entries"], "what a remote store does not know is left out"
    assert_equal 3, read(worker({runtime: {caches: {hits: 3}}}))["neverblock_caches_hits"]
  end

  def test_each_figure_of_a_cache_has_a_name
    require "neverblock/cache"
    cache = NeverBlock::Cache.new(->(_env) { [200, {}, []] })
    assert_equal CACHE.keys - [:lease_waits], cache.stats.keys
    assert_equal CACHE[:requests].keys, cache.stats[:requests].keys
    assert_equal CACHE.keys.sort, NeverBlock::Server::Metrics::CACHE.paths.flatten.sort
  end

  def test_the_page_names_all_that_there_are
    stats = {**NeverBlock.run { NeverBlock.stats }, postgres: {shop: POOL}, connection_pools: {sessions: CONNECTION_POOL}, proxy: {"http://a:1": UPSTREAM}, caches: {pages: CACHE}}
    counted = NeverBlock::Server::Metrics::SERVER.keys.to_h { |key| [key, 1] }
    sidecars = [{command: "bin/jobs", state: :running, restarts: 0}]
    families = text(worker({**counted, refused: {bad_request: 2}, runtime: stats}), sidecars:).scan(/^# HELP (\S+) (.*)\n# TYPE \S+ (\S+)\n/)
    page = File.read(File.expand_path("../../../docs/operations.md", __dir__)).scan(/^\| `(neverblock_\w+)` \| (\w+) \| (.*) \|$/)
    assert_equal families.map { |name, help, type| [name, type, help] }.sort, page.sort
  end

  def test_a_source_that_the_app_has_registered
    metrics = read(worker({runtime: {"my cache": {hits: 3, kind: "lru", shards: [{size: 1}, {size: 2.5}]}}}))
    assert_equal 3, metrics["neverblock_my_cache_hits"]
    assert_equal 2.5, metrics["neverblock_my_cache_shards_size", index: 1]
    assert_equal "untyped", metrics.types["neverblock_my_cache_hits"]
  end

  def test_labels_are_escaped
    assert_includes text(worker, version: "a\"b\\c\nd"), 'version="a\"b\\\\c\nd"'
  end

  def test_a_source_that_can_not_be_told
    log = Struct.new(:lines) { def error(line) = lines << line }.new([])
    NeverBlock::Stats.register(:broken, Class.new { def self.stats = raise("no figures") })
    NeverBlock::Stats.register(:odd, Class.new { def self.stats = {nan: Float::NAN, rate: 0.5, at: Time.at(0).utc} })
    stats = NeverBlock::Server::RuntimeStats.new(log)
    _, figures = Array.new(2) { stats.read }
    assert_equal({nan: nil, rate: 0.5, at: "1970-01-01 00:00:00 UTC"}, figures[:odd])
    assert_equal ["NeverBlock.stats: the source :broken is left out, since it raised RuntimeError: no figures"], log.lines
    refute_includes figures, :broken
    assert_raises(RuntimeError) { NeverBlock.stats }
  ensure
    %i[broken odd].each { |name| NeverBlock::Stats.remove(name) }
  end
end
