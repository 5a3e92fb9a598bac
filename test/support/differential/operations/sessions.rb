# frozen_string_literal: true

module NeverBlockTest
  class Differential
    # Session state that is kept as long as the adapter is checked out. Each operation resets what it sets.
    Operations.area("sessions") do
      add("SET and RESET") { |c| [c.execute("SET statement_timeout TO '7s'"), c.select_value("SHOW statement_timeout"), c.execute("RESET statement_timeout"), c.select_value("SHOW statement_timeout")] }
      each_of(["SET work_mem TO '8MB'", "SET SESSION work_mem = 8192", "SET work_mem TO DEFAULT", "SET TIME ZONE 'Asia/Tokyo'", "SET NAMES 'UTF8'", "SET client_min_messages TO notice", "SET app.tenant TO '7'", "SET search_path TO public, pg_catalog",
        "SET ROLE NONE", "SET SESSION AUTHORIZATION DEFAULT", "SET datestyle TO 'German'", "SET bytea_output TO escape", "SET intervalstyle TO postgres", "SET extra_float_digits TO 0", "RESET ALL"],
        "of a session") { |c, sql| [c.execute(sql), c.select_rows("SELECT current_setting('work_mem'), current_setting('timezone'), current_setting('datestyle'), '2026-02-03'::date::text, '\\x00'::bytea::text, coalesce(current_setting('app.tenant', true), ''), '1 hour'::interval::text, 0.1::float8"), resettled(c)] }
      add("set_config") { |c| [c.select_value("SELECT set_config('app.tenant', '7', false)"), c.select_value("SELECT current_setting('app.tenant')"), c.execute("RESET app.tenant")] }
      add("client_min_messages") { |c| [c.client_min_messages, c.send(:client_min_messages=, "error"), c.client_min_messages, c.send(:client_min_messages=, "warning")] }
      add("schema_search_path=") { |c| c.execute("CREATE SCHEMA other") && c.execute("CREATE TABLE other.things (n int)") && [c.send(:schema_search_path=, "other, public"), c.schema_search_path, c.current_schema, c.table_exists?("things"), c.select_value("SELECT count(*) FROM things"), c.send(:schema_search_path=, "\"$user\", public"), c.table_exists?("things")] }
      add("prepared statements of two schemas") { |c| ["other, public", "\"$user\", public"].map { |path| c.schema_search_path = path; c.select_value("SELECT current_schema()") } } # standard:disable Style/Semicolon
      add("session_auth=") { |c| c.execute("CREATE ROLE nb_someone SUPERUSER") && [c.send(:session_auth=, "nb_someone"), c.select_value("SELECT current_user"), c.send(:session_auth=, "DEFAULT"), c.select_value("SELECT current_user"), c.execute("DROP ROLE nb_someone")] }
      add("temporary tables") { |c| c.execute("CREATE TEMP TABLE passing (n int)") && c.execute("INSERT INTO passing VALUES (1), (2)") && [c.select_value("SELECT sum(n) FROM passing"), c.table_exists?("passing"), c.execute("DROP TABLE passing")] }
      add("create_table temporary") { |c| c.create_table(:passing, temporary: true) { |t| t.string :s } && [c.columns(:passing).map(&:name), c.drop_table(:passing)] }
      add("a temporary table of a transaction") { |c| c.transaction { c.execute("CREATE TEMP TABLE passing ON COMMIT DROP AS SELECT 1 AS n") && c.select_value("SELECT n FROM passing") } }
      add("SELECT INTO") { |c| c.execute("SELECT 1 AS n INTO TEMP passing") && [c.select_value("SELECT n FROM passing"), c.execute("DROP TABLE passing")] }
      add("a temporary view") { |c| c.execute("CREATE TEMP VIEW seen AS SELECT 1 AS n") && [c.select_value("SELECT n FROM seen"), c.execute("DROP VIEW seen")] }
      add("a cursor") { |c| c.transaction { c.execute("DECLARE mine CURSOR FOR SELECT id FROM authors ORDER BY id") && [c.select_values("FETCH 2 FROM mine"), c.execute("MOVE 1 IN mine").cmd_status, c.select_values("FETCH ALL FROM mine").size, c.execute("CLOSE mine").cmd_status] } }
      add("a scrollable cursor") { |c| c.transaction { c.execute("DECLARE mine SCROLL CURSOR FOR SELECT id FROM authors ORDER BY id LIMIT 3") && [c.select_value("FETCH LAST FROM mine"), c.select_value("FETCH PRIOR FROM mine"), c.select_value("FETCH ABSOLUTE 1 FROM mine")] } }
      add("a cursor with hold") { |c| c.transaction { c.execute("DECLARE held CURSOR WITH HOLD FOR SELECT id FROM authors ORDER BY id") } && [c.select_value("FETCH 1 FROM held"), c.select_value("FETCH 1 FROM held"), c.execute("CLOSE held").cmd_status] }
      add("a cursor outside") { |c| c.execute("DECLARE mine CURSOR FOR SELECT 1") }
      add("WHERE CURRENT OF") { |c| c.transaction { c.execute("DECLARE mine CURSOR FOR SELECT * FROM seats WHERE row = 1 ORDER BY number FOR UPDATE") && c.execute("FETCH 1 FROM mine") && c.execute("UPDATE seats SET guest = guest WHERE CURRENT OF mine").cmd_tuples } }
      add("COPY TO") { |c| copied(c, "COPY (SELECT id, name FROM authors WHERE id < 3 ORDER BY id) TO STDOUT (FORMAT csv)") }
      add("COPY TO in binary") { |c| copied(c, "COPY (SELECT 1::int) TO STDOUT (FORMAT binary)") }
      add("COPY TO of an error") { |c| copied(c, "COPY nowhere TO STDOUT") }
      add("COPY TO in a transaction") { |c| c.transaction { copied(c, "COPY seats TO STDOUT").size } }
      add("COPY FROM") { |c| [c.raw_connection.copy_data("COPY seats (row, number, guest) FROM STDIN") { %W[40\t1\ta\n 40\t2\t\\N\n].each { |line| c.raw_connection.put_copy_data(line) } }, c.select_rows("SELECT * FROM seats WHERE row = 40 ORDER BY number")] }
      add("COPY FROM that fails") { |c| failure { c.raw_connection.copy_data("COPY seats FROM STDIN") { c.raw_connection.put_copy_data("x\t1\ta\n") } } }
      add("COPY FROM that raises") { |c| failure { c.raw_connection.copy_data("COPY seats FROM STDIN") { raise "no more" } } }
      add("COPY FROM with an encoder") { |c| c.raw_connection.copy_data("COPY seats FROM STDIN", PG::TextEncoder::CopyRow.new) { c.raw_connection.put_copy_data([41, 1, "b c"]) } && c.select_rows("SELECT * FROM seats WHERE row = 41") }
      add("COPY FROM in a transaction") { |c| c.transaction { c.raw_connection.copy_data("COPY seats FROM STDIN") { c.raw_connection.put_copy_data("42\t1\ta\n") } && raise(ActiveRecord::Rollback) } || c.select_value("SELECT count(*) FROM seats WHERE row = 42") }
      add("after COPY") { |c| c.execute("DELETE FROM seats WHERE row >= 40").cmd_tuples }
      add("LISTEN and NOTIFY") { |c| [c.execute("LISTEN news"), c.execute("NOTIFY news, 'hello'"), heard(c), c.execute("UNLISTEN news")] }
      add("NOTIFY of another") { |c| [c.execute("LISTEN news"), other("NOTIFY news, 'from afar'").class, heard(c), c.execute("UNLISTEN *")] }
      add("NOTIFY in a transaction") { |c| [c.execute("LISTEN news"), c.transaction { c.execute("NOTIFY news, 'late'") && c.raw_connection.wait_for_notify(0.001) }, heard(c), c.execute("UNLISTEN news")] }
      add("nothing to hear") { |c| [c.execute("LISTEN news"), c.raw_connection.wait_for_notify(0.001), c.raw_connection.notifies, c.execute("UNLISTEN news")] }
      add("pg_notify") { |c| c.select_value("SELECT pg_notify('news', 'x')") }
      add("PREPARE and EXECUTE") { |c| [c.execute("PREPARE mine (int) AS SELECT $1 + 1 AS n"), c.select_value("EXECUTE mine (4)"), c.execute("DEALLOCATE mine")] }
      add("DEALLOCATE ALL") { |c| authors.find(1) && [c.execute("DISCARD PLANS"), c.execute("PREPARE mine AS SELECT 1"), c.execute("DEALLOCATE mine"), authors.find(1).name] }
      add("currval") { |c| c.transaction { [c.select_value("SELECT nextval('authors_id_seq')") == c.select_value("SELECT currval('authors_id_seq')"), c.select_value("SELECT lastval()") == c.select_value("SELECT currval('authors_id_seq')")] } }
      add("setval") { |c| [c.select_value("SELECT setval('books_id_seq', 500)"), c.select_value("SELECT nextval('books_id_seq')")] }
      add("an INSERT and currval") { |c| c.transaction { c.execute("INSERT INTO authors (name, created_at, updated_at) VALUES ('cur', now(), now())") && c.select_value("SELECT currval('authors_id_seq')") == authors.find_by(name: "cur").id } }
      add("advisory locks of a session") { |c| [c.select_value("SELECT pg_advisory_lock(3)"), c.select_value("SELECT pg_try_advisory_lock(3)"), c.select_value("SELECT pg_advisory_unlock(3)"), c.select_value("SELECT pg_advisory_unlock(3)"), c.select_value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"), c.select_value("SELECT pg_advisory_unlock_all()")] }
      add("large objects") { |c| c.transaction { c.raw_connection.then { |raw| (oid = raw.lo_creat) && raw.lo_open(oid, PG::INV_READ | PG::INV_WRITE).then { |lo| [raw.lo_write(lo, "hello"), raw.lo_lseek(lo, 0, PG::SEEK_SET), raw.lo_read(lo, 5), raw.lo_close(lo), raw.lo_unlink(oid)] } } } }
      add("large objects by SQL") { |c| c.transaction { c.select_value("SELECT lo_from_bytea(0, '\\x0102')").then { |oid| [c.select_value("SELECT lo_get(#{oid})"), c.select_value("SELECT lo_unlink(#{oid})")] } } }
      add("backend_pid") { |c| c.raw_connection.backend_pid == c.select_value("SELECT pg_backend_pid()") }
      add("a DO block") { |c| c.execute("DO $$ BEGIN PERFORM 1; END $$") }
      add("CALL") { |c| c.execute("CREATE PROCEDURE fill(INOUT n int) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seats VALUES (43, n); COMMIT; n := n + 1; END $$") && [c.select_value("CALL fill(1)"), c.execute("DELETE FROM seats WHERE row = 43").cmd_tuples, c.execute("DROP PROCEDURE fill")] }
      add("an exported snapshot") { |c| c.transaction(isolation: :repeatable_read) { c.select_value("SELECT pg_export_snapshot()").size.positive? } }
      add("setseed") { |c| Array.new(2) { [c.select_value("SELECT setseed(0.5)"), c.select_value("SELECT random()"), c.select_value("SELECT random()")] } }
      add("a setting of a function") { |c| c.execute("CREATE FUNCTION set_inside() RETURNS text LANGUAGE sql SET app.within TO 'inside' AS $$ SELECT current_setting('app.within') $$") && [c.select_value("SELECT set_inside()"), c.execute("DROP FUNCTION set_inside")] }
      add("what it supports") { |c| c.class.public_instance_methods.grep(/\Asupports_\w+\?\z/).sort.to_h { |name| [name, c.public_send(name)] } }
    end
  end
end
