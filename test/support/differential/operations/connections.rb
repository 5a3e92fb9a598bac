# frozen_string_literal: true

module NeverBlockTest
  class Differential
    # Adapters that connect anew.
    Operations.area("connections") do
      add("reset!", differs: {log: :types}) { |c| c.reset! && [c.select_value("SELECT 1"), c.select_value("SHOW client_min_messages"), c.select_value("SHOW timezone")] }
      add("reconnect!", differs: {log: :types}) { |c| c.reconnect! && [c.select_value("SELECT 1"), c.select_value("SHOW client_min_messages"), c.select_value("SHOW timezone"), c.select_value("SHOW intervalstyle")] }
      add("disconnect!", differs: {log: :types}) { |c| [c.disconnect!, c.connected?, c.active?, c.select_value("SELECT 1"), c.connected?] }
      add("verify!") { |c| [c.verify!, c.active?, c.select_value("SELECT 1")] }
      add("one adapter for a fiber") { |c| c.pool.with_connection { |connection| connection.equal?(c) } }
      add("reconnect! in a transaction", differs: {log: :types}) { |c| c.begin_transaction && c.reconnect!(restore_transactions: true) && [c.select_value("SELECT 1"), c.transaction_open?, c.rollback_transaction.class] }
      add("types after that", differs: {log: :types, warnings: :types}) { samples.create!(a_hstore: {"a" => "1"}, a_mood: "sad", a_int4range: 1..2).reload.then { |sample| [sample.a_hstore, sample.a_mood, sample.a_int4range] } }
      add("discarded prepared statements") { |c| 2.times { authors.find(1) } && c.clear_cache! && authors.find(1).name }
      add("unprepared_statement") { |c| c.unprepared_statement { [authors.find(1).name, authors.where(name: "Ada").pluck(:id)] } }
      add("what is known of a connection") { |c| [c.adapter_name, c.connected?, c.supports_insert_returning?, c.use_insert_returning?, c.prepared_statements?, c.max_identifier_length, c.database_version, c.get_database_version, c.check_version.class, c.index_algorithms, c.default_sequence_name("authors")] }
    end
  end
end
