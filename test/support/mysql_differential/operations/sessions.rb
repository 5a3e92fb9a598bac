# frozen_string_literal: true

NeverBlockTest::MySQLDifferential::Operations.area("sessions") do
  add("a variable") { |c| c.execute("set @a = 5") && c.select_value("select @a") }
  add("after a variable") { |c| c.select_value("select @a") }
  add("a variable in a query") { |c| c.select_values("select @n := @n + 1 from authors, (select @n := 0) a where authors.id < 4") }
  add("a variable in an update") { |c| c.execute("set @last = 0") && c.update("update watched set n = (@last := id) limit 1") }
  add("sql_mode") { |c| c.execute("set sql_mode = 'ANSI_QUOTES'") && c.select_value(%(select "name" from authors where id = 1)) }
  add("after sql_mode") { |c| c.select_value(%(select "name" from authors where id = 1)) }
  add("quoting after sql_mode") { |c| c.execute("set sql_mode = 'NO_BACKSLASH_ESCAPES'") && [c.quote("a\\b'c"), c.select_value("select #{c.quote("a\\b'c")}")] }
  add("time_zone") { |c| c.execute("set time_zone = '+05:00'") && c.select_value("select @@time_zone") }
  add("after time_zone") { |c| c.select_value("select @@time_zone") }
  add("names") { |c| c.execute("set names latin1") && c.select_value("select @@character_set_client") }
  add("after names") { |c| c.select_value("select @@character_set_client") }
  add("last_insert_id") { |c| c.execute("insert into watched (n) values (1)") && c.select_value("select last_insert_id() > 0") }
  add("last_insert_id of two") { |c| c.execute("insert into watched (n) values (1), (2)") && c.select_value("select n from watched where id = last_insert_id()") }
  add("last_insert_id after a read") { |c| c.execute("insert into watched (n) values (6)") && c.select_value("select 1") && c.select_value("select n from watched where id = last_insert_id()") }
  add("last_insert_id of nothing") { |c| c.select_value("select last_insert_id()") }
  add("last_insert_id in an insert") { |c| c.execute("insert into watched (n) values (3)") && c.execute("insert into watched (n) values (last_insert_id())") && c.select_value("select count(*) from watched a join watched b on b.n = a.id where a.n = 3") }
  add("last_insert_id with a value") { |c| c.update("update watched set n = last_insert_id(41) limit 1") && c.select_value("select last_insert_id()") }
  add("identity") { |c| c.execute("insert into watched (n) values (1)") && c.select_value("select @@identity = last_insert_id()") }
  add("row_count") { |c| c.execute("update books set price = price + 1 where id < 4") && c.select_value("select row_count()") }
  add("found_rows") { |c| c.select_values("select sql_calc_found_rows id from authors order by id limit 1") && c.select_value("select found_rows() > 1") }
  add("warnings") { |c| c.select_value("select cast('x' as signed)") && c.select_rows("show warnings") }
  add("warning_count") { |c| c.select_value("select cast('x' as signed)") && c.select_value("select @@warning_count") }
  add("no warnings") { |c| c.select_value("select 1") && c.select_rows("show warnings") }
  add("errors") { |c| (c.execute("select * from nowhere") rescue nil) || c.select_rows("show errors") } # standard:disable Style/RescueModifier
  add("a temporary table") { |c| c.execute("create temporary table scratch (n int)") && c.execute("insert into scratch values (1)") && c.select_value("select n from scratch") }
  add("after a temporary table") { |c| c.select_value("select n from scratch") }
  add("a temporary table by Rails") { |c| c.create_table(:scratch, temporary: true) { |t| t.integer :n } && c.data_source_exists?(:scratch) }
  add("a lock") { |c| [c.get_advisory_lock("differential"), c.select_value("select is_used_lock('differential') = connection_id()"), c.release_advisory_lock("differential")] }
  add("a lock that is not released") { |c| c.get_advisory_lock("kept") }
  add("another's lock") { |c| c.release_advisory_lock("nobody's") }
  add("lock tables") { |c| c.execute("lock tables authors read") && (c.select_value("select count(*) from books") rescue $!.class.name) } # standard:disable Style/RescueModifier
  add("after lock tables") { |c| c.select_value("select count(*) > 0 from books") }
  add("prepare") { |c| c.execute("prepare p from 'select ? + 1'") && c.execute("set @one = 1") && c.execute("execute p using @one") }
  add("after prepare") { |c| c.execute("execute p using @one") }
  add("call") { |c| c.execute("create procedure nb_p() select 5 as five") && c.execute("call nb_p()") }
  add("call with an out parameter") { |c| c.execute("create procedure nb_out(out a int) set a = 6") && c.execute("call nb_out(@out)") && c.select_value("select @out") }
  add("a function") { |c| c.execute("create function nb_f(a int) returns int deterministic return a + 1") && c.select_value("select nb_f(1)") }
  add("a function that sets") { |c| c.execute("create function nb_g() returns int begin set @from_g = 3; return 1; end") && c.select_value("select nb_g()") && c.select_value("select @from_g") }
  add("after a function that sets") { |c| c.select_value("select @from_g") }
  add("a trigger") { |c| c.execute("create trigger nb_t before insert on watched for each row set new.m = new.n * 2, @seen = new.n") && c.execute("insert into watched (n) values (21)") && c.select_rows("select max(m), @seen from watched where n = 21") }
  add("after a trigger") { |c| c.select_value("select @seen") }
  add("a view") { |c| c.execute("create view nb_v as select name, last_insert_id() as last from authors") && c.select_rows("select * from nb_v order by name limit 1") }
  add("use") { |c| c.execute("use information_schema") && c.select_value("select database()") }
  add("after use") { |c| c.select_value("select database()") }
  add("set transaction") { |c| c.execute("set transaction isolation level serializable") && c.execute("begin") && c.execute("commit") }
  add("set session transaction") { |c| c.execute("set session transaction isolation level serializable") && c.select_value("select @@tx_isolation") }
  add("after set session transaction") { |c| c.select_value("select @@tx_isolation") }
  add("foreign keys off") { |c| c.disable_referential_integrity { books.new(title: "nowhere", author_id: 9999).save! } && c.select_value("select @@foreign_key_checks") }
  add("do") { |c| c.execute("do 1") }
  add("a handler") { |c| c.execute("handler authors open") && c.select_rows("handler authors read first").size }
  add("profile") { |c| c.execute("set profiling = 1") && c.select_rows("show profiles") }
  add("max_statement_time") { |c| c.execute("set max_statement_time = 0.05") && c.select_value("select sleep(5)") }
  add("kill of nothing") { |c| c.execute("kill 999999999") }
end
