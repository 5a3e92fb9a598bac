# frozen_string_literal: true

# Writes docs/server-tests.md out of what `bin/test --long` has recorded:
#
#   ruby script/server_tests_page.rb tmp/long.jsonl
require "etc"
require "json"
require "time"
require_relative "../benchmark/bench/markdown"
require_relative "../lib/neverblock/version"

# The page.
class ServerTestsPage
  ROOT = File.expand_path("..", __dir__)
  PATH = File.join(ROOT, "docs", "server-tests.md")
  # The pooler between the database's clients and their server.
  BETWEEN = %w[nothing PgBouncer].freeze

  RAILS_VERSIONS = Dir[File.join(ROOT, "test", "apps", "rails", "[0-9]*.gemfile")].size

  HEAD = <<~MARKDOWN
    # What have the long tests of the server found?

    This page is made by `bin/test --long`; do not edit it. Every `bin/test --all` runs the same tests
    for seconds, and beside them: hundreds of malformed, odd, split and pipelined requests on raw sockets, real
    clients (curl, Net::HTTP, httpx, http.rb, excon), Roda, Sinatra and Hanami on Rack 3 and
    2, the same heads through Puma's parser and ours, and random
    traffic with the address sanitizer.
  MARKDOWN

  SOAK = <<~MARKDOWN
    ## Mixed traffic

    24 clients of 29 kinds at a time, in 16 rounds: well-behaved ones, with every kind of request and
    response; slow ones, which send or read a few bytes at a time or stop half way; rude ones,
    which leave or reset at any moment; broken ones; floods beyond `max_in_flight` and the
    queue; apps that raise, early and late. Each response is checked. After each round, when all
    clients have left and garbage is collected, the resources of the process are read: memory (PSS),
    Ruby objects, descriptors. The table has those after the first round, half of the rounds and the last.
    The test fails if the last quarter's median exceeds that of the second by more than
    2 MiB or 2,000 objects, or if a descriptor or a thread is left.
  MARKDOWN

  IDLE = <<~MARKDOWN
    ## 10,000 idle connections

    Each connection sends one request, then is idle; at the end all send another one at once, and get their
    responses. The memory is the growth of the server's PSS, from a warm server with 32
    connections; the kernel's own memory for a socket is not included.
  MARKDOWN

  DEPLOYS = <<~MARKDOWN
    ## Deployments under load

    Two workers; `directory` is a link to the newest release. Each deployment makes a new release,
    switches the link and sends a signal. The next one begins when all old workers have ended and
    only the new release responds. Every third one is preceded by a release that raises while
    it is loaded: the old one must go on. During this time ten clients send requests without a pause, half of
    them on kept connections: plain requests, requests that take 0.3 s, uploads of
    100 KB. A request counts as lost if it has no response, or another status than 200.
  MARKDOWN

  KILLS = <<~MARKDOWN
    ## Killed workers

    Two workers under load by twelve clients; half of the requests take 0.1 s. Repeatedly,
    the worker with more connections gets a `kill -9`. Its accepted connections are read from
    the kernel's tables before that, while it is stopped. Requests may be lost on those
    connections only.
  MARKDOWN

  CHAOS = <<~MARKDOWN
    ## Any process killed

    Two workers, a template, a sidecar and their supervisor, under load by eight clients. Repeatedly,
    one of them gets a `kill -9`, or all but the supervisor, at a random moment, often just after a
    signal that makes the app load again. A killed supervisor is started
    again when all its children have ended and the port is free. Then a request must be answered
    within three seconds plus the load time of the app. In the end no process and
    no file may be left. Requests may be lost on connections that a killed process
    had accepted, and while no supervisor runs.
  MARKDOWN

  GROWTH = <<~MARKDOWN
    ## A worker's memory

    The proportional set size of a worker that has answered 40,000 requests of four kinds,
    and after as many more, with garbage collected. The test fails beyond a growth of 2 MiB.
  MARKDOWN

  RAILS = <<~MARKDOWN
    ## Rails

    The tests of `test/programs/rails_*test.rb` with each supported Rails: an app made by its
    `rails new`, in development and in production, on PostgreSQL. And the tests above of
    deployments, killed workers and memory with that app, in production; the limit of its memory's growth is
    4 MiB.
  MARKDOWN

  DATABASE = <<~MARKDOWN
    ## A database with faults

    60 fibers of one process use every feature of a PostgreSQL, through four clients (reads shared;
    everything shared, and audited; Active Record; Sequel) with 15 connections together, while a fiber
    is cancelled or killed every few milliseconds and one act in ten has too little time. At
    the same time the database's connections are terminated, its statements cancelled, its
    network is cut, slow, silent, refusing, the connection limit is reached, its processes are
    stopped, killed, restarted (smoothly and at once), its configuration, a column's type and its
    roles' defaults change, and a standby takes over. The same runs through a PgBouncer in transaction mode,
    except for the last two of these. Every statement has a text of its own:
    a row of another fiber is recognised. The outcome that each fiber got is compared with the tables:
    no confirmed row is lost, none is there twice, and none that was reported as not
    executed. A view, policies and at the end of each round every connection show whether a setting,
    a role, a lock or a temporary table was left. The test fails for any of these, and if memory
    or objects grow, or a descriptor or a thread is left. Failed acts got an error.
  MARKDOWN

  FUZZ = <<~MARKDOWN
    ## Random bytes

    The parser and the chunk decoder, compiled with the address and undefined behaviour
    sanitizers, steered by coverage (`rake fuzz:http`).
  MARKDOWN

  # @param records [Array<Hash{String=>Object}>] of test/support/long/record.rb
  # @param time [Time]
  def initialize(records, time: Time.now)
    @records = records.group_by { |record| record["what"] }
    @time = time
  end

  # @return [Array<String>] records that are missing for a whole page
  def missing
    engines = of("soak").map { |record| record["engine"] } & of("idle").map { |record| record["engine"] }
    wanted = {"engine" => of("soak").size, "Rails" => RAILS_VERSIONS}
    operations = wanted.to_a.product([["deploys", 2], ["kills", 1], ["growth", 1]]) + [[["engine", wanted["engine"]], ["chaos", 1]]]
    [*("soak and idle on every engine" if engines.empty? || of("soak").size != of("idle").size),
      *("database on every engine" if of("database").size < BETWEEN.size * of("soak").size),
      *operations.filter_map { |(subject, count), (what, times)| "#{what} on every #{subject}" if of(what, subject).size < times * count },
      *("fuzz" if of("fuzz").empty?)]
  end

  def to_s
    parts = [HEAD, Bench::Markdown.list(machine), SOAK, soak, DATABASE, database, IDLE, idle, DEPLOYS, deploys("engine"), KILLS, kills("engine"), CHAOS, chaos, GROWTH, growth("engine"),
      RAILS, deploys("Rails"), kills("Rails"), growth("Rails"), FUZZ, fuzz]
    parts.map(&:chomp).join("\n\n") + "\n"
  end

  private

  # @param subject [String] the kind of each: an "engine", or "Rails"
  def of(what, subject = nil) = @records.fetch(what, []).select { |record| subject.nil? || record.key?(subject) }

  def machine
    {"time" => @time.utc.iso8601, "processor" => "#{File.read("/proc/cpuinfo")[/^model name\s*: (.*)/, 1]}, #{Etc.nprocessors} cores",
     "kernel" => Etc.uname.values_at(:sysname, :release, :machine).join(" "), "ruby" => RUBY_DESCRIPTION,
     "neverblock" => "#{NeverBlock::VERSION} (#{`git -C #{ROOT} describe --always --dirty 2>/dev/null`.strip})", "command" => "bin/test --long"}
  end

  def soak
    rows = of("soak").map do |record|
      counts = record.values_at("requests", "connections", "failed", "refused", "left", "broken", "late").map { |count| number(count) }
      held = [record["pss"].map { |bytes| mebibytes(bytes) }, record["objects"].map { |count| number(count) }, record["descriptors"]]
      [record["engine"], record["seconds"], *counts, *held.map { |figures| figures.join(" ") }]
    end
    Bench::Markdown.table(["engine", "seconds", "requests", "connections", "app raised", "503", "client left", "400 and the like", "408", "PSS in MiB", "objects", "descriptors"], rows)
  end

  def database
    rows = of("database").map do |record|
      counts = record.values_at("done", "failed").map { |count| number(count) }
      held = [record["pss"].map { |bytes| mebibytes(bytes) }, record["objects"].map { |count| number(count) }, record["descriptors"]]
      [record["engine"], record["between"], record["seconds"], *counts, record["faults"].values.sum, record["wrong"], record["backends"], *held.map { |figures| figures.join(" ") }]
    end
    Bench::Markdown.table(["engine", "between", "seconds", "acts", "that failed", "faults", "wrong", "backends at most", "PSS in MiB", "objects", "descriptors"], rows)
  end

  def idle
    rows = of("idle").map do |record|
      [record["engine"], number(record["answered"]), number(record["kept"]), "#{record["bytes"]} B", record["objects"], mebibytes(record["pss_before"]), mebibytes(record["pss_full"])]
    end
    Bench::Markdown.table(["engine", "answered", "again at the end", "PSS a connection", "objects a connection", "PSS before, MiB", "with them, MiB"], rows)
  end

  def deploys(subject)
    rows = of("deploys", subject).map { |record| [record[subject], record["signal"], record["deploys"], record["refused"], number(record["requests"]), record["lost"], record["seconds"]] }
    Bench::Markdown.table([subject, "signal", "deployments", "that failed", "requests", "lost", "seconds"], rows)
  end

  def kills(subject)
    rows = of("kills", subject).map { |record| [record[subject], record["kills"], number(record["requests"]), record["connections"], record["lost"], record["strays"]] }
    Bench::Markdown.table([subject, "killed", "requests", "connections they had", "lost on these", "lost on others"], rows)
  end

  # The kinds of killed processes are those of test/support/cluster/chaos.rb.
  def chaos
    rows = of("chaos").map do |record|
      killed = record["kills"].values_at("worker", "template", "sidecar", "children", "supervisor").map(&:to_i)
      [record["engine"], killed.sum, *killed, number(record["requests"]), number(record["lost"]), record["strays"], record["slowest"], record["seconds"]]
    end
    heads = ["engine", "killed", "workers", "templates", "sidecars", "all children", "supervisors", "requests", "lost on these, or in an outage", "lost else", "slowest return, s", "seconds"]
    Bench::Markdown.table(heads, rows)
  end

  def growth(subject)
    rows = of("growth", subject).map { |record| [record[subject], number(record["requests"]), mebibytes(record["before"]), mebibytes(record["after"])] }
    Bench::Markdown.table([subject, "requests", "PSS before, MiB", "after, MiB"], rows)
  end

  def fuzz
    rows = of("fuzz").map { |record| [record["seconds"], number(record["executions"]), record["edges"], record["seed"], "none"] }
    Bench::Markdown.table(%w[seconds inputs edges seed findings], rows)
  end

  def number(count) = count.to_s.gsub(/(?<=\d)(?=(\d{3})+\z)/, ",")

  def mebibytes(bytes) = format("%.1f", bytes / 1_048_576.0)
end

if $PROGRAM_NAME == __FILE__
  page = ServerTestsPage.new(File.readlines(ARGV.fetch(0)).map { |line| JSON.parse(line) })
  abort "docs/server-tests.md is left as it was, without: #{page.missing.join(", ")}" if page.missing.any?
  File.write(ServerTestsPage::PATH, page.to_s)
  puts "docs/server-tests.md is written"
end
