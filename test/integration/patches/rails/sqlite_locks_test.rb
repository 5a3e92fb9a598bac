# frozen_string_literal: true

require "test_helper"
require "tmpdir"

# Active Record on SQLite inside a loop, with the Railtie's patches, each time in a process of its own.
class SqliteLocksTest < Minitest::Test
  include NeverBlockTest::Helpers

  SETUP = <<~'RUBY'
    require "active_record"
    require "sqlite3"
    require "neverblock"
    require "neverblock/patches/rails/sqlite_interruption"
    require "neverblock/patches/rails/sqlite_turn"
    ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
    patches = [NeverBlock::Patches::Rails::SqliteInterruption, NeverBlock::Patches::Rails::SqliteTurn]
    patches.each { |patch| patch.needed? ? patch.apply : abort("#{patch} is not needed") }
    TIMEOUT = Integer(ENV.fetch("BUSY_TIMEOUT", "20000"))
    ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: ENV.fetch("DATABASE"), timeout: TIMEOUT, pool: 20)
    ActiveRecord::Schema.verbose = false
    ActiveRecord::Schema.define { create_table(:items) { |table| table.integer :number } }
    class Item < ActiveRecord::Base; end
    # Holds the lock until something is pushed into the queue.
    def hold
      till = Thread::Queue.new
      NeverBlock.spawn { Item.transaction { Item.create!(number: -1) && till.pop } }
      sleep 0.01 until Item.connection_pool.connections.any? { |connection| connection.open_transactions == 1 } # real: the lock of SQLite
      till
    end
  RUBY

  # Its file sqlite3/version can't be required alone.
  def setup
    skip "the gem sqlite3 is not among the gems here" unless Gem.loaded_specs.key?("sqlite3")
  end

  slow "it starts a program with Active Record"
  def test_transactions_of_a_process_get_the_lock_in_the_order_in_which_they_came
    assert_equal "0 1 2 3 4 5 6 7 8 9 10 11", program(<<~RUBY)
      NeverBlock.run do
        till = hold
        waiting = Array.new(12) { |number| NeverBlock.spawn { Item.transaction { Item.create!(number:); sleep 0.01 } }.tap { sleep 0.01 } } # real: the lock of SQLite
        till << true
        waiting.each(&:value)
        puts Item.where(number: 0..).order(:id).pluck(:number).join(" ")
      end
    RUBY
  end

  slow "it starts a program with Active Record, and waits for a lock in vain"
  def test_a_wait_in_vain_raises_what_rails_raises
    assert_equal "ActiveRecord::StatementTimeout 12, -1", program(<<~'RUBY', "BUSY_TIMEOUT" => "150")
      NeverBlock.run do
        till = hold
        errors = Array.new(12) { NeverBlock.spawn { Item.transaction { Item.create!(number: 1) } rescue $!.class } }.map(&:value)
        till << true
        sleep 0.01 until Item.exists?(number: -1) # real: the lock of SQLite
        puts "#{errors.tally.map { |pair| pair.join(" ") }.join(" ")}, #{Item.pluck(:number).join(" ")}"
      end
    RUBY
  end

  # Active Record reads the columns with a lock that the other needs: its owner must not wait for the other's end.
  slow "it starts a program with Active Record"
  def test_a_model_is_used_first_while_another_transaction_has_the_lock
    assert_equal "1 2 3", program(<<~RUBY, "BUSY_TIMEOUT" => "2000")
      class Cold < ActiveRecord::Base
        self.table_name = "items"
      end
      insert = "insert into items (number) values (1)"
      NeverBlock.run do
        till = Thread::Queue.new
        begun = Thread::Queue.new
        first = NeverBlock.spawn { Cold.transaction { Cold.lease_connection.execute(insert) && (begun << true) && till.pop && Cold.create!(number: 2) } }
        begun.pop
        other = NeverBlock.spawn { Cold.transaction { Cold.create!(number: 3) } }
        NeverBlock.pass until other.inspect.include?("waiting")
        sleep 0.05 # real: its statements run in threads, or hold the loop
        till << true
        [first, other].each(&:value)
        puts Cold.order(:id).pluck(:number).join(" ")
      end
    RUBY
  end

  # SQLite keeps its mutex through such a driver; another thread would then wait for that mutex while it holds Ruby's
  # lock.
  slow "it starts a program with Active Record"
  def test_a_connection_goes_on_after_a_timeout_amid_a_wait_for_the_lock
    assert_equal "NeverBlock::TimeoutError, 7", program(<<~RUBY)
      NeverBlock.run do
        till = hold
        connection = Item.connection_pool.checkout
        begun = Thread::Queue.new
        late = NeverBlock.spawn { NeverBlock.timeout(0.05) { (begun << true) && connection.execute("insert into items (number) values (7)") } rescue $!.class }
        begun.pop
        sleep 0.1 # real: its limit passes while it waits for the lock of SQLite
        till << true
        print late.value, ", "
        puts Thread.new { connection.select_value("select max(number) from items") }.value
      end
    RUBY
  end

  private

  def program(code, environment = {})
    Dir.mktmpdir("nb") do |folder|
      assert_ruby(SETUP + code, gems: true, options: ["-W0"], environment: {"DATABASE" => "#{folder}/items.sqlite3", **environment}).chomp
    end
  end
end
