# frozen_string_literal: true

require "test_helper"
require "support/serve_process"

# Active Record without the Railtie: fibers never use each other's transactions, wherever it is loaded.
class RecordsIsolationTest < Minitest::Test
  include NeverBlockTest::Helpers

  CONNECT = 'require "active_record"; ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: "records.db", pool: 5)'

  # One request is in a transaction while another one counts those that are open on its connection.
  APP = <<~RUBY
    held, go = false, Queue.new
    run(lambda do |env|
      if env["PATH_INFO"] == "/first" && !defined?(ActiveRecord::Base)
        #{CONNECT}
      end
      text = ActiveRecord::Base.connection_pool.with_connection do |connection|
        case env["PATH_INFO"]
        when "/hold"
          connection.transaction do
            connection.select_value("select 1")
            held = true
            go.pop
          end
        when "/held" then held
        when "/look" then connection.open_transactions
        end
      end
      [200, {}, [text.to_s]]
    end)
  RUBY
  RACKUP = [Gem.bin_path("rackup", "rackup"), "-s", "neverblock", "-o", "127.0.0.1", "-p", "0", "-E", "none"].freeze

  def setup
    %w[activerecord sqlite3].each { |gem| skip "the gem #{gem} is not among the gems here" unless Gem.loaded_specs.key?(gem) }
  end

  slow "it starts a server with Active Record"
  def test_an_app_that_loads_it_with_the_first_request
    serve(APP) { |served| assert_equal "0", look_during_a_transaction(served) }
  end

  # The app's connection is the main thread's when the server starts.
  slow "it starts a server with Active Record"
  def test_rackup_with_an_app_that_has_loaded_it_and_set_the_wrong_level
    wrong = "#{CONNECT}\nActiveSupport::IsolatedExecutionState.isolation_level = :thread\nActiveRecord::Base.lease_connection.select_value('select 1')\n"
    serve(wrong + APP, command: RACKUP) { |served| assert_equal "0", look_during_a_transaction(served) }
  end

  slow "it starts a server with Active Record"
  def test_rackup_refuses_to_start_where_the_state_is_in_use
    wrong = "#{CONNECT}\nActiveRecord::Base.lease_connection.begin_transaction(_lazy: false)\n"
    serve(wrong + APP, command: RACKUP) do |served|
      assert_equal 64, served.wait.exitstatus
      assert_match(/^neverblock: .*a transaction is open, .* write: ActiveSupport::.*isolation_level = :fiber$/, served.errors)
    end
  end

  slow "it starts a program with Active Record"
  def test_a_program_s_idle_connection_goes_back_to_its_pool
    Dir.mktmpdir do |folder|
      output = assert_ruby(<<~RUBY, gems: true)
        require "neverblock"
        Dir.chdir(#{folder.inspect})
        #{CONNECT}
        ActiveRecord::Base.lease_connection.select_value("select 1")
        NeverBlock.run do
          p ActiveRecord::Base.connection_pool.stat.values_at(:busy, :idle)
          p Array.new(2) { NB.spawn { ActiveRecord::Base.lease_connection.tap { NB.pass }.object_id } }.map(&:value).uniq.size
        end
      RUBY
      assert_equal "[0, 1]\n2\n", output
    end
  end

  private

  def serve(app, **, &) = NeverBlockTest::ServeProcess.open(app, gems: true, **, &)

  # @return [String] how many transactions the second request sees
  def look_during_a_transaction(served)
    served.get("/first")
    holder = served.connect
    holder << "GET /hold HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    served.until_true("its transaction") { served.body("/held") == "true" }
    served.body("/look")
  ensure
    holder&.close
  end
end
