# frozen_string_literal: true

require "test_helper"
require_relative "../support/mysql"

# What a response, or the text of a statement, does not show at first sight: open transactions, comments, the end of a
# fiber that no `rescue` sees. No other fiber gets such a connection.
class MySQLUnseenTest < Minitest::Test
  include NeverBlockTest::MySQL

  # COMMIT AND CHAIN opens the next one: a connection that counts as free loses what is written there.
  def test_statements_that_look_like_the_end_of_a_transaction
    with_table do |table|
      ["commit#{" " * 27}and chain", "rollback#{" " * 25}to savepoint a"].each do |statement|
        with_mysql(connections: 1) do |database|
          in_loop do
            database.connect do |connection|
              connection.query("begin")
              connection.query("savepoint a")
              connection.query(statement)
              assert_predicate connection, :in_transaction?, statement
              connection.query("insert into #{table} (n) values (1)")
              connection.query("commit")
              refute_predicate connection, :in_transaction?
            end
          end
        end
      end
      assert_equal "2", ask("select count(*) from #{table}")
    end
  end

  def test_a_lock_behind_a_comment
    with_mysql(connections: 2) do |database|
      in_loop do
        database.query("select 1 --\x7f'\n, get_lock('behind a comment', 0) -- '")
        pass_until("its release") { one(database.query("select is_free_lock('behind a comment')")) == 1 }
      end
    end
  end
end

# The same with the gem mysql2.
class MySQL2UnseenTest < MySQLUnseenTest
  include NeverBlockTest::ByMysql2
end
