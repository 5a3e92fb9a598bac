# frozen_string_literal: true

require "test_helper"
require "securerandom"
require_relative "../../support/database"

# A virtual connection beside a PG::Connection: each method is accounted for, and both return the same.
class PostgresVirtualConnectionTest < Minitest::Test
  include NeverBlockTest::Database

  # Operations on both: the block's value, or the class of its exception, must be equal.
  SCENES = {
    exec: ->(c) { c.exec("select 1 as a, 'x' as b union all select 2, null").values },
    exec_block: ->(c) { c.exec("select 7") { |result| result.getvalue(0, 0) } },
    exec_params: ->(c) { c.exec_params("select $1::int + $2::int", [3, "4"]).getvalue(0, 0) },
    exec_binary: ->(c) { c.exec_params("select $1::int4", [258], 1).getvalue(0, 0).unpack("C*") },
    exec_typed: ->(c) { c.exec_params("select $1 + 1", [{value: "41", type: 23, format: 0}]).getvalue(0, 0) },
    exec_empty: ->(c) { c.exec("").result_status },
    exec_several: ->(c) { c.exec("select 1; select 2").values },
    params_several: ->(c) { c.exec_params("select 1; select 2", []) },
    params_several_in_transaction: ->(c) { c.exec("begin") && c.exec_params("select 1; select 2", []) },
    prepared_several: ->(c) { c.prepare("p", "select 1; select 2") && c.exec_prepared("p") },
    params_copy: ->(c) { c.exec_params("copy (select 1) to stdout", []).result_status.tap { lines(c) } },
    params_empty: ->(c) { [c.exec_params("", []).result_status, c.exec("begin") && c.exec_params(";", []).result_status] },
    exec_error: ->(c) { c.exec("select 1/0") },
    exec_syntax: ->(c) { c.exec("selec") },
    error_in_params: ->(c) { c.exec_params("select $1::int", ["x"]) },
    too_few_parameters: ->(c) { c.exec_params("select $1::int + $2::int", [1]) },
    write_tag: ->(c) { c.exec("create temp table t (n int)") && c.exec("insert into t values (1), (2)").then { |r| [r.cmd_status, r.cmd_tuples] } },
    prepare: ->(c) { c.prepare("p", "select $1::int * 2") && c.exec_prepared("p", [21]).getvalue(0, 0) },
    prepare_twice: ->(c) { c.prepare("p", "select 1") && c.prepare("p", "select 2") },
    prepare_unnamed: ->(c) { c.prepare("", "select 1") && c.prepare("", "select 2") && c.exec_prepared("").getvalue(0, 0) },
    prepare_typed: ->(c) { c.prepare("p", "select $1 + 1", [20]) && c.exec_prepared("p", [1]).ftype(0) },
    prepare_of_nothing: ->(c) { c.exec_prepared("nothing") },
    describe_prepared: ->(c) { c.prepare("p", "select $1::int as a, 'x'::text as b") && c.describe_prepared("p").then { |r| [r.nparams, r.paramtype(0), r.fields] } },
    close_prepared: ->(c) { c.prepare("p", "select 1") && c.close_prepared("p") && c.exec_prepared("p") },
    deallocate: ->(c) { c.prepare("p", "select 1") && c.exec("deallocate p").cmd_status && c.exec_prepared("p") },
    deallocate_all: ->(c) { c.prepare("p", "select 1") && c.exec("deallocate all") && c.exec_prepared("p") },
    prepare_in_sql: ->(c) { c.exec("prepare q as select 5") && c.exec("execute q").getvalue(0, 0) },
    transaction: ->(c) { c.transaction { |t| [t.transaction_status, t.exec("select 1").getvalue(0, 0)] } },
    transaction_after: ->(c) { c.transaction { |t| t.exec("select 1") } && c.transaction_status },
    transaction_raises: ->(c) { (c.transaction { |t| t.exec("create temp table gone (n int)") && raise("no") } rescue 1) && c.exec("select to_regclass('gone')").getvalue(0, 0) }, # standard:disable Style/RescueModifier
    transaction_fails: ->(c) { c.exec("begin") && (c.exec("select 1/0") rescue c.transaction_status) }, # standard:disable Style/RescueModifier
    failed_then: ->(c) { c.exec("begin") && (c.exec("select 1/0") rescue c.exec("select 1")) }, # standard:disable Style/RescueModifier
    commit_of_failed: ->(c) { c.exec("begin") && (c.exec("select 1/0") rescue c.exec("commit").cmd_status) }, # standard:disable Style/RescueModifier
    statuses: ->(c) { [c.transaction_status, c.exec("begin") && c.transaction_status, c.exec("select 1") && c.transaction_status, c.exec("rollback") && c.transaction_status] },
    savepoints: ->(c) { c.transaction { |t| t.exec("savepoint a") && (t.exec("select 1/0") rescue t.exec("rollback to a")) && t.exec("select 9").getvalue(0, 0) } }, # standard:disable Style/RescueModifier
    chained: ->(c) { [c.exec("begin"), c.exec("select 1"), c.exec("rollback and chain"), c.exec("select 2"), c.exec("commit and chain"), c.exec("commit")].map(&:cmd_status) << c.transaction_status },
    tags: ->(c) { ["start transaction", "rollback", "begin", "end", "set search_path to default", "reset search_path", "unlisten *", "deallocate all"].map { |sql| c.exec(sql).then { |r| [r.cmd_status, r.cmd_tuples, r.result_status] } } },
    begin_twice: ->(c) { c.set_notice_processor {} || 2.times.map { c.exec("begin").cmd_status } },
    copy_in: ->(c) { c.exec("create temp table t (n int, s text)") && c.copy_data("copy t from stdin csv") { 3.times { |n| c.put_copy_data("#{n},s#{n}\n") } } && c.exec("select * from t").values },
    copy_in_encoded: ->(c) { c.exec("create temp table t (n int, s text)") && c.copy_data("copy t from stdin", PG::TextEncoder::CopyRow.new) { c.put_copy_data([1, "a\tb"]) } && c.exec("select * from t").values },
    copy_in_fails: ->(c) { c.exec("create temp table t (n int)") && c.copy_data("copy t from stdin") { c.put_copy_data("x\n") } },
    copy_in_given_up: ->(c) { c.exec("create temp table t (n int)") && (c.copy_data("copy t from stdin") { c.put_copy_data("1\n") && raise("no") } rescue c.exec("select count(*) from t").getvalue(0, 0)) }, # standard:disable Style/RescueModifier
    copy_out: ->(c) { c.copy_data("copy (select g, 'x' from generate_series(1, 3) g) to stdout csv") { @heard = lines(c) } && @heard },
    copy_out_decoded: ->(c) { c.copy_data("copy (select g, 'x' from generate_series(1, 3) g) to stdout", PG::TextDecoder::CopyRow.new) { @heard = lines(c) } && @heard },
    copy_out_left: ->(c) { c.copy_data("copy (select generate_series(1, 1000)) to stdout") { c.get_copy_data && raise("no") } rescue c.exec("select 1").getvalue(0, 0) }, # standard:disable Style/RescueModifier
    copy_by_hand: ->(c) { c.exec("create temp table t (n int)") && c.exec("copy t from stdin") && c.put_copy_data("5\n") && c.put_copy_end && c.get_last_result && c.exec("select n from t").values },
    notify: ->(c) { c.exec("listen news") && c.exec("notify news, 'extra'") && c.wait_for_notify(5) { |channel, _pid, payload| @heard = [channel, payload] } && @heard },
    notify_none: ->(c) { c.exec("listen silence") && c.wait_for_notify(0.01) },
    notices: ->(c) { heard = [] and c.set_notice_receiver { |r| heard << r.error_field(PG::PG_DIAG_MESSAGE_PRIMARY) } || c.exec("do $$ begin raise notice 'hear'; end $$") && heard },
    notice_processor: ->(c) { heard = [] and c.set_notice_processor { |text| heard << text } || c.exec("do $$ begin raise notice 'hear'; end $$") && heard },
    results_mapped: ->(c) { (c.type_map_for_results = PG::BasicTypeMapForResults.new(c)) && c.exec("select 1, 2.5::float8, true, null, '{1,2}'::int[]").values },
    queries_mapped: ->(c) { (c.type_map_for_queries = PG::BasicTypeMapForQueries.new(c)) && c.exec_params("select $1 + 1, $2", [1, true]).values },
    map_in_lease: ->(c) { (c.type_map_for_results = PG::TypeMapByColumn.new([PG::TextDecoder::Integer.new])) && c.transaction { c.exec("select 8").values } },
    symbols: ->(c) { (c.field_name_type = :symbol) && c.exec("select 1 as a").to_a },
    escapes: ->(c) { [c.escape_string("it's"), c.escape_literal("it's \\"), c.escape_identifier(%(a"b)), c.quote_ident("a.b"), c.escape_bytea("\x00'".b), c.unescape_bytea("\\x0027"), c.escape("'")] },
    encodings: ->(c) { [c.internal_encoding, c.external_encoding, c.get_client_encoding] },
    encoding_set: ->(c) { c.set_client_encoding("LATIN1") || [c.get_client_encoding, c.exec("select 'ü'".encode("ISO-8859-1")).getvalue(0, 0).encoding, c.exec("show client_encoding").getvalue(0, 0)] },
    error_message: ->(c) { [c.error_message, (c.exec("select 1/0") rescue c.error_message), c.exec("select 1") && c.error_message, (c.exec_params("select $1::int", ["x"]) rescue c.error_message)] }, # standard:disable Style/RescueModifier
    about: ->(c) { [c.db, c.user, c.server_version, c.protocol_version, c.status, c.finished?, c.error_message, c.parameter_status("server_encoding"), c.host, c.port] },
    async: ->(c) { c.send_query("select 1; select 2") && Array.new(3) { c.get_result&.values } },
    async_params: ->(c) { c.send_query_params("select $1::text", ["x"]) && c.get_last_result.values },
    async_flags: ->(c) { c.send_query("select 1") && [c.flush, c.block, c.is_busy, c.get_result.values, c.get_result] },
    single_row: ->(c) { c.send_query("select generate_series(1, 3)") && c.set_single_row_mode && [].tap { |rows| c.get_result&.then { |r| rows.concat(r.values) } until rows.size == 3 } },
    stream: ->(c) { c.send_query("select generate_series(1, 3) as n") && c.set_single_row_mode && c.get_result.stream_each.map { |row| row["n"] } },
    pipeline: ->(c) { c.enter_pipeline_mode && c.send_query_params("select 1", []) },
    discarded: ->(c) { c.send_query("select 1") && [c.discard_results, c.exec("select 2").values] },
    cancel_idle: ->(c) { c.cancel },
    close: ->(c) { c.close || [c.finished?, (c.exec("select 1") rescue $!.class)] }, # standard:disable Style/RescueModifier
    close_twice: ->(c) { 2.times { c.close } },
    status_after_close: ->(c) { c.close || c.status },
    reset: ->(c) { c.exec("begin") && c.reset && [c.transaction_status, c.exec("select 3").getvalue(0, 0)] },
    reset_of_settings: ->(c) { c.exec("set statement_timeout to 4321") && c.reset && c.exec("show statement_timeout").getvalue(0, 0) },
    cursor: ->(c) { c.transaction { |t| t.exec("declare k cursor for select generate_series(1, 5)") && t.exec("fetch 2 from k").values } },
    large_object: ->(c) { c.transaction { |t| (id = t.lo_creat) && (fd = t.lo_open(id, PG::INV_READ | PG::INV_WRITE)) && t.lo_write(fd, "large") && t.lo_lseek(fd, 0, PG::SEEK_SET) && t.lo_read(fd, 10) } },
    password: ->(c) { c.encrypt_password("secret", "me", "md5") },
    password_by_default: ->(c) { c.encrypt_password("secret", "me")[0, 13] },
    socket: ->(c) { [c.socket_io.class, c.backend_pid.class, c.exec("select 1").values] },
    empty_result: ->(c) { c.make_empty_pgresult(PG::PGRES_COMMAND_OK).result_status },
    discard_all: ->(c) { c.exec("discard all").cmd_status },
    is_a: ->(c) { PG::Connection === c }
  }.freeze

  # Intended differences, and those that depend on the engine.
  APART = {
    cancel_idle: "nothing runs: no request is sent",
    status_after_close: "Active Record asks for it where it would not expect an exception"
  }.freeze

  def self.lines(connection)
    lines = []
    while (line = connection.get_copy_data)
      lines << line
    end
    lines
  end

  # A new method of pg fails this test.
  def test_each_method_is_our_own_or_for_a_reason
    theirs = PG::Connection.instance_methods(false).select { |name| NeverBlock::Postgres::VirtualConnection.instance_method(name).owner == PG::Connection }
    assert_empty theirs - NeverBlock::Postgres::VirtualConnection::Delegation::OWN
  end

  # None of them may use the object's own connection, which doesn't exist.
  def test_methods_that_pg_keeps_work_without_a_connection
    with_database do |database|
      connection = database.connection
      NeverBlock::Postgres::VirtualConnection::Delegation::OWN.each do |name|
        next if name.end_with?("=") || name == :transaction
        connection.public_send(name)
      end
      connection.check_in
    end
  end

  slow "it goes through all methods"
  def test_beside_a_stock_one_in_a_loop
    with_database(connections: 3) { |database| in_loop { compare(database) } }
  end

  slow "it goes through all methods"
  def test_beside_a_stock_one_on_a_thread
    with_database(connections: 3) { |database| on_thread { compare(database) } }
  end

  # A cancel from another fiber ends the statement that runs in the lease.
  # Changes made on the real connection would affect other users.
  def test_an_error_leads_to_the_connection_that_one_has
    with_database do |database|
      in_loop do
        database.connect do |connection|
          [-> { connection.exec("select 1/0") }, -> { connection.exec("begin; select 1/0") }, -> { connection.exec_params("insert into no_such values ($1)", [1]) }].each do |failing|
            assert_same connection, assert_raises(PG::Error, &failing).connection
          end
          assert_same connection, assert_raises(PG::Error) { connection.copy_data("copy no_such from stdin") { nil } }.connection
        end
      end
      database.connect { |connection| assert_same connection, assert_raises(PG::Error) { connection.exec("select 1/0") }.connection }
    end
  end

  def test_a_copy_whose_connection_is_closed_meanwhile
    with_database do |database|
      in_loop do
        copying = NB.spawn do
          database.connect { |connection| connection.copy_data("copy (select pg_sleep(30)) to stdout") { connection.get_copy_data } }
        end
        pass_until("the copy") { ask("select count(*) from pg_stat_activity where query like 'copy (select pg_sleep%' and state = 'active'") == "1" }
        database.close
        error = outcome(copying)
        assert_kind_of PG::ConnectionBad, error
        assert_match(/was closed/, error.message)
      end
    end
  end

  def test_cancel_from_another_fiber
    with_database do |database|
      in_loop do
        database.connect do |connection|
          connection.exec("BEGIN")
          task = NB.spawn { connection.exec("select pg_sleep(30)") }
          pass_until("the sleeper") { active("select pg_sleep(30%") == 1 }
          connection.cancel
          assert_kind_of PG::QueryCanceled, outcome(task)
          assert_equal PG::PQTRANS_INERROR, connection.transaction_status
        end
      end
    end
  end

  # YJIT doesn't compile calls for a class if one of its objects has singleton methods: all results in the process would
  # be read more slowly.
  def test_no_object_of_pg_s_has_a_class_of_its_own
    with_database(connections: 2) do |database|
      in_loop do
        connection = database.connection
        answers = ["BEGIN", "SELECT 1", "COMMIT", "SET application_name TO 'mine'", "SELECT 2"].map { |sql| connection.exec(sql) }
        connection.check_in
        ours = [connection, *answers, *physical(database).map(&:pg)].to_h { |object| [object, true] }.compare_by_identity
        own = ObjectSpace.each_object(Class).select(&:singleton_class?).filter_map { |kind| kind.attached_object if ours[kind.attached_object] }
        assert_empty own
      end
    end
  end

  # Results made by the library are a new object each time.
  def test_one_answer_spoils_no_other
    with_database do |database|
      in_loop do
        one, other = Array.new(2) { database.connection }
        one.exec("BEGIN").clear
        one.exec("COMMIT") { |result| assert_equal "COMMIT", result.cmd_status }
        other.type_map_for_results = PG::TypeMapAllStrings.new
        other.field_name_type = :symbol
        found = other.exec("BEGIN")
        assert_equal ["BEGIN", PG::PGRES_COMMAND_OK, 0, 0], [found.cmd_status, found.result_status, found.ntuples, found.nfields]
        assert_equal "COMMIT", other.exec("COMMIT").cmd_status
      end
    end
  end

  # The statement may be pipelined with those of other fibers.
  def test_cancel_of_a_statement_that_shares_says_why_not
    with_database(connections: 2) do |database|
      in_loop do
        database.connect do |connection|
          assert_nil connection.cancel, "nothing runs"
          task = NB.spawn { one(connection.exec("select 1 from pg_sleep(0.05)")) }
          said = pass_until("its statement") { connection.cancel }
          assert_match(/is not cancelled by it: end its fiber's wait/, said)
          assert_equal "1", task.value
          assert_nil connection.cancel
        end
      end
    end
  end

  def test_parameters_that_are_no_array
    with_database(connections: 2) do |database|
      in_loop do
        ["a", 1, {a: 1}].each do |params|
          error = assert_raises(TypeError) { database.exec("select $1::text", params) }
          assert_match(/params: #{Regexp.escape(params.inspect)} is not an Array: put the values/, error.message)
        end
      end
    end
  end

  private

  def compare(database)
    differences = SCENES.filter_map do |name, scene|
      next if APART.key?(name)
      stock = PG.connect(url)
      expected = told { self.class.instance_exec(stock, &scene) }
      stock.close unless stock.finished?
      found = virtual(database) { |connection| told { self.class.instance_exec(connection, &scene) } }
      [name, expected, found] if expected != found
    end
    assert_empty differences.map { |name, expected, found| "#{name}: #{expected.inspect}, ours #{found.inspect}" }
  end

  def virtual(database)
    connection = database.connection
    value = yield connection
    connection.check_in unless connection.finished?
    pass_until("the cleaning") { database.stats[:held] == 0 }
    value
  end

  def told
    NB.timeout(5) { yield }
  rescue NoMethodError => error # whose message names the class
    [error.class.name, error.name]
  rescue NeverBlock::TimeoutError, PG::Error, RuntimeError, ArgumentError, TypeError => error
    [error.class.name, error.message.sub(/\A(.{0,60}).*/m, '\1')]
  end
end
