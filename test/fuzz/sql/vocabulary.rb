# frozen_string_literal: true

module NeverBlockFuzz
  # The words of which programs of fuzz:sql are made. A new word is a few lines here: a weight, and a block that a {Desk}
  # runs. Its value is compared. What a fiber writes, defines or locks is its own, so that the value doesn't depend on
  # other fibers.
  #
  #   SqlVocabulary::WORDS[:count].weight      # => 4
  #
  # In the block, `fiber` is the fiber's number, `nonce` is a new name, and `choose` takes one of a list by the plan's
  # number.
  module SqlVocabulary
    Word = Struct.new(:name, :weight, :api, :block)

    WORDS = {}

    class << self
      # @param api [:records, :plain, nil] where the word exists; nil: everywhere
      def word(name, weight = 3, api: nil, &block) = WORDS[name] = Word.new(name, weight, api, block)
    end

    # ---- rows ----
    word(:insert, 8) { rows("insert into own#{fiber} (nonce, v) values ($1, 1) returning nonce", nonce) }
    word(:update, 5) { rows("update own#{fiber} set v = v + $1::int returning nonce, v", choose([1, 2, 3])).sort_by(&:to_s) }
    word(:count, 4) { rows("select count(*), sum(v), max(nonce) from own#{fiber}") }
    word(:bound, 4) { rows("select $1::text, $2::int, array[1, null]::int[]::text, null, $3::timestamptz::text", nonce, choose([1, 7]), "2026-06-01 00:00+02") }
    word(:many, 1) { rows("select $1 || g from generate_series(1, #{choose([10, 3000])}) g", nonce).then { |all| [all.size, all.first, all.last] } }
    word(:fail, 4) { rows(choose(["select 1/0", "select nope", "select 'x'::int", "insert into own#{fiber} (nonce) values (null)", "selec", "select from nowhere"])) }
    word(:conflict, 2) { 2.times { |n| rows("insert into own#{fiber} (nonce, v) values ('same', 1) on conflict (nonce) do update set v = #{n}") } && rows("select v from own#{fiber} where nonce = 'same'") }
    word(:several, 2) { session { |raw| raw.exec("select 1; insert into own#{fiber} (nonce) values ('#{nonce}'); select count(*) from own#{fiber}").values } }
    word(:do_block, 2) { rows("do $$ begin insert into own#{fiber} (nonce) values ('#{nonce}'); begin perform 1/0; exception when others then null; end; end $$") }
    word(:copy) do
      session do |raw|
        name = nonce
        raw.copy_data("copy own#{fiber} (nonce, v) from stdin") { 3.times { |n| raw.put_copy_data("#{name}-#{n}\t#{n}\n") } }
        lines = []
        raw.copy_data("copy (select nonce, v from own#{fiber} where nonce like '#{name}-%' order by v) to stdout") { while (line = raw.get_copy_data) do lines << line end }
        lines
      end
    end

    # ---- transactions ----
    word(:transaction, 6) { transaction { rows("insert into own#{fiber} (nonce, v) values ('#{nonce}', 5)") && pause && count } }
    word(:rollback, 4) { undone { rows("delete from own#{fiber}") && pause && count } }
    word(:broken, 3) { transaction { rows("insert into own#{fiber} (nonce) values ('#{nonce}')") && rows("select 1/0") } }
    word(:aborted, 2) { undone { [failure { rows("select 1/0") }, failure { rows("select 1") }] } }
    word(:savepoint, 3) do
      transaction do
        run "savepoint a"
        rows("insert into own#{fiber} (nonce, v) values ('#{nonce}', 9)")
        failure { rows("select 1/0") } if choose([true, false])
        run choose(["rollback to a", "rollback to a; release a"])
        [rows("insert into own#{fiber} (nonce, v) values ('#{nonce}', 3) returning v"), pause, count]
      end
    end
    word(:isolation, 2) { transaction { run("set transaction isolation level #{choose(["serializable", "repeatable read"])}") && pause && [rows("show transaction_isolation"), count] } }
    word(:hold, 12) { transaction { rows("insert into own#{fiber} (nonce) values ('#{nonce}')") && sleep(0.4) && count } } # real: others wait for a connection
    word(:add_up, 3) { transaction { rows("update counter set n = n + 1") && nil } }
    word(:two_phases, 3) do
      name = nonce
      session do |raw|
        raw.exec("begin")
        raw.exec("insert into own#{fiber} (nonce, v) values ('#{name}', 2)")
        raw.exec("prepare transaction '#{name}'")
      end
      before = count
      run(choose(["commit prepared '#{name}'", "rollback prepared '#{name}'"]))
      [before, count]
    end
    word(:sequence, 2) { transaction { run("insert into own#{fiber} (nonce) values ('#{nonce}')") && pause && rows("select lastval() = max(id), currval('own#{fiber}_id_seq') = max(id) from own#{fiber}") } }

    # ---- the session ----
    word(:look, 6) { look }
    word(:setting, 4) { session { |raw| [raw.exec("set app.t = '#{nonce}'"), pause, raw.exec("select current_setting('app.t')").values, raw.exec("reset app.t")].then { |found| found[2] } } }
    word(:local_setting, 3) { transaction { [run("set local app.t = '#{nonce}'; set local timezone = 'Asia/Tokyo'"), pause, rows("select current_setting('app.t'), '2026-01-01 00:00+00'::timestamptz::text")].last } }
    word(:role, 3) { undone { [run("set local role pg_read_all_data"), pause, rows("select current_user"), failure { rows("insert into own#{fiber} (nonce) values ('x')") }].last(2) } }
    word(:path, 2) { transaction { run("set local search_path = s#{fiber}, public") && pause && rows("select name from place where name <> $1", nonce) } }
    word(:cursor, 3) { transaction { run("declare c cursor for select g from generate_series(1, 10) g") && pause && [rows("fetch 3 from c"), run("move 2 in c") && rows("fetch 2 from c")] } }
    word(:held_cursor, 2) { session { |raw| [raw.exec("declare h cursor with hold for select g from generate_series(1, 5) g"), pause, raw.exec("fetch 2 from h").values, raw.exec("close h")][2] } }
    word(:temporary, 3) { session { |raw| [raw.exec("create temp table t (x text)"), raw.exec("insert into t values ('#{nonce}')"), pause, raw.exec("select x from t").values, raw.exec("drop table t")][3] } }
    word(:advisory, 3) { session { |raw| [raw.exec("select pg_try_advisory_lock(#{1000 + fiber})").values, pause, raw.exec("select pg_advisory_unlock(#{1000 + fiber})").values] } }
    word(:prepared, 2) { session { |raw| [raw.exec("prepare p as select $1::int + 1"), pause, raw.exec("execute p(4)").values, raw.exec("deallocate p")][2] } }
    word(:listen, 2) do
      session do |raw|
        raw.exec("listen ch#{fiber}")
        raw.exec("notify ch#{fiber}, '#{nonce}'")
        heard = nil
        raw.wait_for_notify(10) { |channel, _, payload| heard = [channel, payload] }
        raw.exec("unlisten ch#{fiber}")
        heard
      end
    end

    # ---- functions, views and triggers with effects ----
    word(:leave, 4) { [rows("select leave('f#{fiber}')"), pause, look].first }
    word(:leave_by_view, 3) { rows("select l from leaving#{fiber}") }
    word(:zone_by_trigger, 3) { run("insert into zoned (owner, nonce) values (#{fiber}, '#{nonce}')") && rows("select '2026-01-01 00:00+00'::timestamptz::text") }
    word(:audit, 10) { rows("insert into audited#{fiber} values ('#{nonce}') returning nonce") }
    word(:audit_by_view, 6) { rows("select a from auditing#{fiber}") && nil }

    # ---- definitions ----
    word(:column, 2) { run("alter table own#{fiber} add column if not exists more int default 3") && rows("select * from own#{fiber} order by id limit 1").map { |row| row.drop(1) } }
    word(:type, 2) { run("alter table own#{fiber} alter column v type #{choose(%w[int bigint])}") && rows("select sum(v) from own#{fiber} where v > $1", 0) }
    word(:undone_definition, 2) { undone { run("alter table own#{fiber} add column gone int") && pause && rows("select gone from own#{fiber}").uniq } }
    word(:table, 2) { run("create table made#{fiber} as select 7 as x") && [rows("select x from made#{fiber}"), run("drop table made#{fiber}")].first }
    word(:two_phase_definition, 10) do
      name = nonce
      text = choose(["leave('f#{fiber}')", "'plain'::text"])
      3.times { rows("select s from changing#{fiber}") }
      session do |raw|
        raw.exec("begin")
        raw.exec("create or replace view changing#{fiber} as select #{text} as s")
        raw.exec("prepare transaction '#{name}'")
      end
      rows("select 1")
      pause
      run("commit prepared '#{name}'")
      Array.new(3) { rows("select s from changing#{fiber}") }
    end

    # ---- limits ----
    word(:statement_timeout, 2) { undone { run("set local statement_timeout = 20") && rows("select pg_sleep(20)") } }
    word(:cancelled, 2) { rows("select pg_cancel_backend(pg_backend_pid()), pg_sleep(20)") }

    # ---- Active Record ----
    word(:create, 4, api: :records) { model.create!(nonce: nonce, v: 4).reload.attributes.except("id") }
    word(:upsert, 2, api: :records) { model.upsert_all([{nonce: nonce, v: 1}, {nonce: nonce, v: 2}], unique_by: :nonce, returning: %w[nonce]).rows.sort }
    word(:each_one, 2, api: :records) { model.find_each(batch_size: 3).map(&:nonce).sort }
    word(:lock_row, 2, api: :records) { model.first&.with_lock { pause } && count }
    word(:asynchronous, 2, api: :records) { model.where(v: 1).load_async.then { |found| pause && found.map(&:nonce).sort } }
    word(:nested, 3, api: :records) { model.transaction { model.transaction(requires_new: true) { model.create!(nonce: nonce) && raise(ActiveRecord::Rollback) } || model.count } }
    word(:twice, 2, api: :records) { name = nonce and model.transaction { 2.times { model.create!(nonce: name) } } }
  end
end
