# frozen_string_literal: true

require "test_helper"
require_relative "../../support/database"

# Garbage per statement: a thousand fibers have a thousand of these objects at a time.
class PostgresObjectsTest < Minitest::Test
  include NeverBlockTest::Database
  include NeverBlockTest::Helpers

  # The statement, its copy of the parameters, the result, that of its Sync, the tag; and for each batch of answers a
  # dozen more, most of them the settings that the server reports.
  slow "thousands of statements"
  def test_a_shared_statement_makes_few_objects
    with_database(connections: 1) do |database|
      in_loop { database.connect { |connection| assert_operator objects_of_each(connection), :<=, 19.1 } }
    end
  end

  # So they need not be compared for each statement.
  def test_connections_that_are_configured_alike_have_the_same_session_defaults
    with_database do |database|
      session_defaults = Array.new(2) { configured(database) }
      assert_equal ["LATIN1", 2], [session_defaults.first.encoding, session_defaults.first.statements.size]
      assert_same(*session_defaults)
    end
  end

  private

  def objects_of_each(connection)
    connection.prepare("one", "select $1::int")
    params = [1]
    1_000.times { connection.exec_prepared("one", params).clear }
    objects_per_call(1_000) { connection.exec_prepared("one", params).clear }
  end

  def configured(database)
    in_loop do
      database.connect do |connection|
        connection.configure do
          connection.exec("SET search_path TO public")
          connection.set_client_encoding("LATIN1")
          connection.exec("SELECT set_config('app.tenant', '7', false)")
        end
        connection.session_defaults
      end
    end
  end
end
