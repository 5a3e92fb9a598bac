# frozen_string_literal: true

NeverBlockTest::MySQLDifferential::Operations.area("connections") do
  ActiveRecord::ConnectionAdapters::AbstractMysqlAdapter.public_instance_methods.grep(/\Asupports_.*\?\z/).sort.each do |name|
    add(name.to_s) { |c| c.public_send(name) }
  end
  add("create_or_find_by_lock", from: "8.1") { |c| c.create_or_find_by_lock }

  %i[adapter_name current_database charset collation strict_mode? mariadb? active? connected? native_database_types default_timezone
    prepared_statements max_identifier_length table_name_length index_name_length emulate_booleans].each do |name|
    add(name.to_s) { |c| c.public_send(name) }
  end
  add("database_version") { |c| c.database_version.to_s }
  add("show_variable") { |c| c.show_variable("max_allowed_packet") }
  add("show_variable of none") { |c| c.show_variable("no_such_variable") }
  add("reconnect!") { |c| c.reconnect! && c.select_value("select 1") }
  add("reconnect! ends the session") { |c| c.execute("set @gone = 1") && c.reconnect! && c.select_value("select @gone") }
  add("reset! ends the session") { |c| c.execute("set @gone = 1") && c.reset! && c.select_value("select @gone") }
  add("disconnect!") { |c| c.disconnect! || [c.active?, c.select_value("select 1")] }
  add("verify!") { |c| c.verify! && c.select_value("select 1") }
  add("reconnect! in a transaction") { |c| c.transaction { authors.create!(name: "r1") && c.reconnect! } && authors.exists?(name: "r1") }
  add("quote_table_name") { |c| [c.quote_table_name("a.b"), c.quote_column_name("a`b"), c.quoted_true, c.quoted_date(Time.utc(2026, 1, 2, 3, 4, 5, 678_900))] }
  add("type_cast") { |c| [1, "a", nil, true, Date.new(2026, 1, 2), Time.utc(2026, 1, 2), BigDecimal("1.5")].map { |value| c.type_cast(value) } }
end
