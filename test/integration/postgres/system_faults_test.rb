# frozen_string_literal: true

# chaos: each system call of connecting fails once

require "test_helper"
require "json"
require "support/database"
require "support/faults"
require "support/serve_process"

# Whatever call of the system fails while a client connects anew: the next statement works, and its pool counts right.
class PostgresSystemFaultsTest < Minitest::Test
  include NeverBlockTest::Database

  # /work: statements of several tasks, after the server has ended all connections.
  APP = <<~'RUBY'
    require "json"
    require "neverblock/postgres"
    database = NeverBlock::Postgres.new(ENV.fetch("URL"), connections: 2)
    run(lambda do |env|
      text = case env["PATH_INFO"]
      when "/work"
        tasks = Array.new(6) { |n| NeverBlock.spawn { database.exec("select #{n}").getvalue(0, 0).to_i } }
        tasks.map { |task| task.value rescue task.error.class.name }.join(" ")
      when "/counts" then database.stats.to_json
      else database.transaction { |connection| connection.exec("select 1").getvalue(0, 0) }
      end
      [200, {}, [text.to_s]]
    end)
  RUBY

  def test_each_call_of_a_connect
    skip NeverBlockTest::Faults.missing if NeverBlockTest::Faults.missing
    NeverBlockTest::Faults.open do |faults|
      environment = {**faults.environment, "URL" => url}
      NeverBlockTest::ServeProcess.open(APP, "-p", "0", environment:, gems: true) do |served|
        assert_equal "0 1 2 3 4 5", served.body("/work")
        failed = %i[descriptor connect].map { |kind| walk(served, faults, kind) }
        failed.each { |count| assert_operator count, :>, 0 }
      end
    end
  end

  private

  def walk(served, faults, kind)
    name = url[/application_name=(.*)/, 1]
    again = lambda do
      ask("select pg_terminate_backend(pid) from pg_stat_activity where application_name = '#{name}'")
      served.body("/work")
    end
    faults.walk(kind, again) do |number, answers|
      what = "#{kind} #{number}"
      answers.split.each_with_index { |answer, n| assert_match(/\A(#{n}|PG::\w+|NeverBlock::Postgres::\w+)\z/, answer, what) }
      served.until_true("#{what}: a transaction") { served.body("/") == "1" }
      served.until_true("#{what}: an idle pool") do
        JSON.parse(served.body("/counts")).values_at("busy", "opening", "in_flight", "queued") == [0, 0, 0, 0]
      end
    end
  end
end
