# frozen_string_literal: true

require "test_helper"
require_relative "../../support/shared_shapes"

# Code of the caller that raises or waits while a statement passes: parameters that become text, encoders, notice
# receivers, logs.
class PostgresCallbacksTest < Minitest::Test
  include NeverBlockTest::SharedShapes

  # The fiber waits for its parameter, while other fibers have statements to send.
  def test_a_parameter_that_waits_while_it_becomes_text
    with_database(connections: 1) do |database|
      in_loop do
        share(database)
        tasks = Array.new(30) do |n|
          slow = text { 2.times { NB.pass } && n.to_s }
          NB.spawn { one(database.exec("select $1::text as n", [n.even? ? slow : n])) }
        end
        assert_equal 30.times.map(&:to_s), tasks.map(&:value)
      end
    end
  end

  def test_a_parameter_that_asks_the_same_database
    with_database(connections: 1) do |database|
      in_loop do
        share(database)
        tasks = Array.new(10) do |n|
          asking = text { database.exec("select #{n} as n").getvalue(0, 0) }
          NB.spawn { one(database.exec("select $1::text as n", [asking])) }
        end
        assert_equal 10.times.map(&:to_s), tasks.map(&:value)
      end
    end
  end

  def test_parameters_that_raise_or_throw
    with_database(connections: 1) do |database|
      in_loop do
        share(database)
        tasks = Array.new(30) do |n|
          odd = text { (n % 3 == 0) ? raise(NotImplementedError, "no #{n}") : throw(:out, "out #{n}") }
          NB.spawn { catch(:out) { one(database.exec("select $1::text as n", [(n % 3 == 1) ? n : odd])) } }
        end
        tasks.each_with_index do |task, n|
          value = outcome(task)
          case n % 3
          when 0 then assert_equal "no #{n}", value.message
          when 1 then assert_equal n.to_s, value
          else assert_equal "out #{n}", value
          end
        end
        works(database)
      end
    end
  end

  def test_a_type_map_s_encoder_that_raises
    with_database(connections: 1) do |database|
      in_loop do
        failing = Class.new(PG::SimpleEncoder) { def encode(_value) = raise(NotImplementedError, "no encoding") }.new
        tasks = Array.new(20) do |n|
          NB.spawn do
            database.connect do |connection|
              connection.type_map_for_queries = PG::TypeMapByColumn.new([failing]) if n.odd?
              one(connection.exec_params("select $1::text as n", [n.to_s]))
            end
          end
        end
        values = tasks.map { |task| outcome(task).then { |value| (NotImplementedError === value) ? value.message : value } }
        assert_equal 20.times.map { |n| n.odd? ? "no encoding" : n.to_s }, values
        works(database)
      end
    end
  end

  # The statement fails, not the reading fiber, and libpq's state stays consistent.
  def test_a_notice_receiver_that_raises
    with_database(connections: 1) do |database|
      in_loop do
        database.exec("create or replace function remark(n int) returns int language plpgsql as $$ begin raise notice 'remark %', n; return n; end $$")
        values = Array.new(9) do |n|
          NB.spawn do
            database.connect do |connection|
              heard = []
              connection.set_notice_receiver { |notice| (n % 3 == 0) ? raise("not heard") : heard << notice.error_message }
              connection.exec("select remark(#{n})")
              heard
            end
          end
        end.map { |task| outcome(task) }
        values.each_with_index { |value, n| (n % 3 == 0) ? assert_equal("not heard", value.message) : assert_match(/remark #{n}\b/, value.first) }
        works(database)
      end
    end
  end

  def test_a_notice_receiver_that_waits
    with_database(connections: 1, shareable_functions: ["remark"]) do |database|
      in_loop do
        database.exec("create or replace function remark(n int) returns int language plpgsql as $$ begin raise notice 'remark %', n; return n; end $$")
        tasks = Array.new(20) do |n|
          NB.spawn do
            database.connect do |connection|
              heard = nil
              connection.set_notice_receiver do |notice|
                NB.pass
                heard = notice.error_message
              end
              [one(connection.exec("select remark(#{n})")), heard[/\d+/]]
            end
          end
        end
        assert_equal 20.times.map { |n| [n.to_s] * 2 }, tasks.map(&:value)
      end
    end
  end

  def test_a_log_that_raises
    database = NeverBlock::Postgres.new(url, connections: 2, shareable_functions: ["sly"], log: ->(line) { raise "no log: #{line[0, 20]}" })
    out, err = capture_io do
      in_loop do
        database.exec("create or replace function sly() returns int language sql as $$ select set_config('application_name', 'sly', false); select 1 $$")
        4.times { outcome(NB.spawn { database.exec("select sly()") }) }
        database.connect { |connection| connection.exec("set statement_timeout to 1234") }
        works(database)
      end
    end
    assert_empty out
    assert_match(/has changed its session: application_name.*no log/m, err)
  ensure
    database&.close
  end

  private

  # @return [Object] a parameter whose text is the block's value
  def text(&) = Object.new.tap { |parameter| parameter.define_singleton_method(:to_s, &) }
end
