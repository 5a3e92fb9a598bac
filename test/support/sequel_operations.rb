# frozen_string_literal: true

module NeverBlockTest
  # Operations with Sequel, in order, for two adapters that must not differ in results, errors and SQL.
  #
  #   SequelOperations.schema(db)
  #   SequelOperations::ALL.each { |name, operation| operation.call(db) }
  module SequelOperations
    ALL = {}

    class << self
      # @param db [Sequel::Database] that is empty
      # @return [void]
      def schema(db)
        db.create_table(:authors) do
          primary_key :id
          String :name, null: false, unique: true
          Integer :age
          check { age > 0 }
        end
        db.create_table(:books) do
          primary_key :id
          foreign_key :author_id, :authors
          String :title, null: false
          BigDecimal :price, size: [10, 2]
          column :tags, "text[]"
          column :data, :jsonb
          Date :published
          DateTime :seen_at
          TrueClass :sold
          File :cover
          Float :weight
          column :during, :tsrange
          column :pause, :interval
        end
        db.extension :pg_array, :pg_json, :pg_range
        %w[Ada Bob Cyd].each_with_index { |name, n| db[:authors].insert(name:, age: 30 + n) }
        12.times do |n|
          db[:books].insert(author_id: n % 3 + 1, title: "Title #{n}", price: BigDecimal("1.5") * n, tags: Sequel.pg_array(%W[a#{n} b], :text),
            data: Sequel.pg_jsonb("n" => n), published: Date.new(2020, 1, n + 1), seen_at: Time.utc(2026, 1, 2, 3, 4, n), sold: n.even?,
            cover: Sequel.blob("\0\xff#{n}".b), weight: n / 4.0)
        end
      end

      private

      def add(name, &operation) = ALL[name] = operation

      # Adds an operation for each value that the block yields.
      def each_of(list, name, &operation)
        list.each { |item| add("#{name} #{item.inspect}") { |db| operation.call(db, item) } }
      end
    end

    add("all") { |db| db[:books].order(:id).all }
    add("first") { |db| db[:books].order(:id).first }
    add("first of none") { |db| db[:books].where(id: 0).first }
    add("first!") { |db| db[:books].where(id: 0).first! }
    add("by key") { |db| db[:books][id: 3] }
    add("get") { |db| db[:books].where(id: 2).get(:title) }
    add("count") { |db| db[:books].count }
    add("empty") { |db| db[:books].empty? }
    add("map") { |db| db[:books].order(:id).select_map(:title) }
    add("pairs") { |db| db[:books].order(:id).select_hash(:id, :title) }
    add("groups") { |db| db[:books].order(:id).select_hash_groups(:author_id, :id) }
    add("as_hash") { |db| db[:authors].as_hash(:id, :name) }
    add("sum avg min max") { |db| %i[sum avg min max].map { |word| db[:books].public_send(word, :price) } }
    add("group and count") { |db| db[:books].group_and_count(:author_id).order(:author_id).all }
    add("having") { |db| db[:books].group(:author_id).having { count.function.* > 3 }.select_map(:author_id).sort }
    add("join") { |db| db[:books].join(:authors, id: :author_id).order { books[:id] }.select_map(%i[title name]) }
    add("left join") { |db| db[:authors].left_join(:books, author_id: :id, title: "Title 1").order { authors[:id] }.select_map([:name, :title]) }
    add("sub-select") { |db| db[:authors].where(id: db[:books].where { price > 10 }.select(:author_id)).order(:id).select_map(:name) }
    add("exists") { |db| db[:authors].where(db[:books].where(author_id: Sequel[:authors][:id]).exists).count }
    add("union") { |db| db[:books].select(:title).union(db[:authors].select(:name)).order(:title).all }
    add("window") { |db| db[:books].select { [id, row_number.function.over(partition: :author_id, order: :id).as(:n)] }.order(:id).all }
    add("with") { |db| db[:cheap].with(:cheap, db[:books].where { price < 3 }).order(:id).select_map(:id) }
    add("recursion") { |db| db[:t].with_recursive(:t, db.select(Sequel.as(1, :n)), db[:t].select { n + 1 }.where { n < 5 }, args: [:n]).select_map(:n) }
    add("lateral") { |db| db[:authors].cross_join(db[:books].where(author_id: Sequel[:authors][:id]).order(:id).limit(1).lateral.as(:b)).select_map(:title).sort }
    add("case") { |db| db[:books].order(:id).select_map(Sequel.case({{sold: true} => "yes"}, "no")) }
    add("paged_each") { |db| db[:books].order(:id).paged_each(rows_per_fetch: 5).map { |row| row[:id] } }
    add("use_cursor") { |db| db[:books].order(:id).use_cursor(rows_per_fetch: 4).map { |row| row[:id] } }
    add("use_cursor hold") { |db| db[:books].order(:id).use_cursor(rows_per_fetch: 4, hold: true).map { |row| row[:id] } }
    add("a cursor that is left") { |db| db[:books].order(:id).use_cursor(rows_per_fetch: 2).each { |row| break row[:id] } }
    add("where_current_of") { |db| db[:books].where(id: [1, 2]).order(:id).use_cursor(rows_per_fetch: 1).each { |row| db[:books].where_current_of.update(weight: row[:id]) }; db[:books].order(:id).limit(2).select_map(:weight) } # standard:disable Style/Semicolon
    add("full text") { |db| db[:books].full_text_search(:title, "Title & 3").select_map(:id) }
    add("for update") { |db| db.transaction { db[:books].where(id: 1).for_update.first[:id] } }
    add("for update, alone") { |db| db[:books].where(id: 1).for_update.get(:id) }
    add("distinct on") { |db| db[:books].distinct(:author_id).order(:author_id, :id).select_map(:id) }
    add("array operators") { |db| db.extension(:pg_array) && db[:books].where(Sequel.lit("'b' = any(tags)")).count }
    add("json operators") { |db| db[:books].where(Sequel.lit("data @> ?", '{"n": 3}')).select_map(:id) }
    add("ranges") { |db| db[:books].where(id: 4).update(during: Sequel.pg_range(Time.utc(2026)...Time.utc(2027), :tsrange)) && db[:books].where(id: 4).get(:during).to_s }
    add("intervals") { |db| db[:books].where(id: 4).update(pause: "1 day 2 hours") && db[:books].where(id: 4).get(:pause) }
    add("explain") { |db| db[:books].where(id: 1).explain.lines.size.positive? }
    add("analyze") { |db| db[:books].where(id: 1).analyze.lines.size.positive? }
    each_of([nil, true, false, 1, -5, 2**40, 2**70, 1.5, 1e300, "", "it's", "Ünï \\ \"", :sym, Date.new(2024, 2, 29), BigDecimal("12.50")], "literal") { |db, value| db.get(Sequel.as(value.is_a?(Symbol) ? value.to_s : value, :v)) }
    each_of([Time.utc(2026, 1, 2, 3, 4, 5.5r), DateTime.new(2026, 1, 2), Sequel::SQLTime.create(1, 2, 3)], "time") { |db, value| db.get(Sequel.cast(value, value.is_a?(Sequel::SQLTime) ? :time : :timestamp)).to_s }
    each_of(["\0", "\xff\xfe'\\".b, ""], "blob") { |db, value| db.get(Sequel.blob(value)).bytes }
    each_of([%w[{1,2,NULL} int[]], ['{"a b",c}', "text[]"], %w[{{1,2},{3,4}} int[]]], "array") { |db, (text, type)| db.get(Sequel.lit("'#{text}'::#{type}")).to_a }
    each_of(["null", "1", '"x"', "[1,2]", '{"a":{"b":null}}'], "jsonb") { |db, value| db.get(Sequel.lit("?::jsonb", value)).inspect }
    each_of(%w[int2 int4 int8 numeric float4 float8 text varchar bool date timestamp timestamptz time interval uuid inet cidr bytea json jsonb oid money xml bit point], "null of") { |db, type| db.get(Sequel.cast(nil, type.to_sym)) }
    each_of(%w[NaN Infinity -Infinity], "float") { |db, value| db.get(Sequel.lit("'#{value}'::float8")).to_s }

    add("insert") { |db| db[:authors].insert(name: "Dan", age: 40) }
    add("insert of default values") { |db| db.create_table!(:counted) { primary_key :id } || db[:counted].insert }
    add("insert returning") { |db| db[:authors].returning(:id, :name).insert(name: "Eve", age: 41) }
    add("insert of many") { |db| db[:authors].multi_insert([{name: "F1", age: 1}, {name: "F2", age: 2}]) }
    add("import") { |db| db[:authors].import(%i[name age], [["G1", 1], ["G2", 2], ["G3", 3]], return: :primary_key) }
    add("import in slices") { |db| db[:authors].import(%i[name age], Array.new(5) { |n| ["S#{n}", n + 1] }, slice: 2) }
    add("insert of a select") { |db| db[:authors].insert(%i[name age], db[:authors].where(name: "Ada").select(Sequel.lit("name || '2'"), :age)) }
    add("insert conflict") { |db| db[:authors].insert_conflict.insert(name: "Ada", age: 1) }
    add("upsert") { |db| db[:authors].insert_conflict(target: :name, update: {age: Sequel[:excluded][:age]}).insert(name: "Bob", age: 77) && db[:authors].where(name: "Bob").get(:age) }
    add("update") { |db| db[:authors].where(name: "Dan").update(age: Sequel[:age] + 1) }
    add("update of none") { |db| db[:authors].where(id: 0).update(age: 1) }
    add("update returning") { |db| db[:authors].where(name: "Dan").returning(:age).update(age: 50) }
    add("update from") { |db| db[:authors].from(:authors, :books).where(Sequel[:authors][:id] => Sequel[:books][:author_id], Sequel[:books][:id] => 2).update(age: 33) }
    add("delete") { |db| db[:authors].where(name: "F1").delete }
    add("delete returning") { |db| db[:authors].where(name: "F2").returning.delete.map { |row| row[:name] } }
    add("with that writes") { |db| db[:gone].with(:gone, db[:authors].where(name: "G1").returning(:name).with_sql(:delete_sql)).select_map(:name) }
    add("truncate") { |db| db.create_table!(:emptied) { Integer :n } || db[:emptied].insert(n: 1) || db[:emptied].truncate || db[:emptied].count }
    add("merge") { |db| db.server_version >= 150_000 && db[:authors].merge_using(db.select(Sequel.as("Ada", :n)).as(:s), name: :n).merge_update(age: 31).merge && db[:authors].where(name: "Ada").get(:age) }

    add("transaction") { |db| db.transaction { db[:authors].insert(name: "T1", age: 1) } }
    add("empty transaction") { |db| db.transaction { :nothing } }
    add("roll back") { |db| db.transaction { db[:authors].insert(name: "T2", age: 1) && raise(Sequel::Rollback) } || db[:authors].where(name: "T2").count }
    add("roll back always") { |db| db.transaction(rollback: :always) { db[:authors].insert(name: "T3", age: 1) } && db[:authors].where(name: "T3").count }
    add("reraised roll back") { |db| db.transaction(rollback: :reraise) { raise Sequel::Rollback } }
    add("an error in a transaction") { |db| db.transaction { db[:authors].insert(name: "T4", age: 1) && db[:nowhere].all } }
    add("nothing of it") { |db| db[:authors].where(name: "T4").count }
    add("savepoints") { |db| db.transaction { db.transaction(savepoint: true) { db[:authors].insert(name: "P1", age: 1) && raise(Sequel::Rollback) } || db[:authors].insert(name: "P2", age: 1) } && db[:authors].where(name: %w[P1 P2]).select_map(:name) }
    add("an error in a savepoint") { |db| db.transaction { (db.transaction(savepoint: true) { db[:authors].insert(name: "Ada", age: 1) } rescue $!.class).then { |error| [error, db[:authors].count] } } } # standard:disable Style/RescueModifier
    add("auto savepoints") { |db| db.transaction(auto_savepoint: true) { db.transaction { raise Sequel::Rollback } || db.in_transaction? } }
    each_of(%i[uncommitted committed repeatable serializable], "isolation") { |db, level| db.transaction(isolation: level) { db.get(Sequel.lit("current_setting('transaction_isolation')")) } }
    add("read only") { |db| db.transaction(read_only: true) { db[:authors].insert(name: "RO", age: 1) } }
    add("deferrable") { |db| db.transaction(isolation: :serializable, read_only: true, deferrable: true) { db[:authors].count.positive? } }
    add("synchronous") { |db| db.transaction(synchronous: :off) { db.get(Sequel.lit("current_setting('synchronous_commit')")) } }
    add("after commit") { |db| [].tap { |done| db.transaction { db.after_commit { done << :commit } || db.after_rollback { done << :rollback } } } }
    add("after roll back") { |db| [].tap { |done| db.transaction { db.after_commit { done << :commit } || db.after_rollback { done << :rollback } || raise(Sequel::Rollback) } } }
    add("retry_on") { |db| 0.then { |tries| db.transaction(retry_on: Sequel::UniqueConstraintViolation, num_retries: 2) { ((tries += 1) < 3) ? db[:authors].insert(name: "Ada", age: 1) : tries } } }
    add("rollback_on_exit") { |db| db.transaction { db[:authors].insert(name: "X1", age: 1) && db.rollback_on_exit } || db[:authors].where(name: "X1").count }
    add("what a transaction sees") { |db| db.transaction { db[:authors].insert(name: "V1", age: 1) && db[:authors].where(name: "V1").count } }
    add("deferred constraints") { |db| db.create_table!(:deferred) { Integer :id, primary_key: true; foreign_key :of, :deferred, deferrable: true } || db.transaction { db.defer_constraints && db[:deferred].insert(id: 1, of: 2) } } # standard:disable Style/Semicolon
    add("a commit that fails") { |db| db.transaction { db.run("set constraints all deferred") || db[:deferred].insert(id: 3, of: 4) } }
    add("temporary tables of one hold") { |db| db.synchronize { db.create_table(:passing, temp: true) { Integer :n } || db[:passing].insert(n: 3) || db[:passing].get(:n) } }
    add("temporary tables of a transaction") { |db| db.transaction { db.create_table(:passing2, temp: true, on_commit: :drop) { Integer :n } || db[:passing2].insert(n: 3) || db[:passing2].get(:n) } }
    add("settings of one hold") { |db| db.synchronize { db.run("SET statement_timeout TO 4321") || db.get(Sequel.lit("current_setting('statement_timeout')")).tap { db.run("RESET statement_timeout") } } }
    add("advisory lock") { |db| db.with_advisory_lock(42) { db[:authors].count.positive? } }
    add("prepared transaction") { |db| db.transaction(prepare: "nb_prepared") { db[:authors].count.positive? } }

    add("prepare") { |db| db[:authors].where(name: :$n).prepare(:select, :by_name).call(n: "Ada").map { |row| row[:id] } }
    add("prepared again") { |db| db.call(:by_name, n: "Cyd").map { |row| row[:id] } }
    add("prepared first") { |db| db[:authors].where(name: :$n).prepare(:first, :first_by_name).call(n: "Ada")[:id] }
    add("prepared without arguments") { |db| db[:authors].order(:id).limit(2).prepare(:select, :two).call.map { |row| row[:name] } }
    add("prepared anew") { |db| db[:authors].where(id: :$n).prepare(:select, :by_name).call(n: 1).map { |row| row[:name] } }
    add("prepared insert") { |db| db[:authors].prepare(:insert, :add, name: :$n, age: :$a).call(n: "Prep", a: 3) }
    add("prepared update") { |db| db[:authors].where(name: :$n).prepare(:update, :aged, age: :$a).call(n: "Prep", a: 4) }
    add("prepared delete") { |db| db[:authors].where(name: :$n).prepare(:delete, :gone).call(n: "Prep") }
    add("prepared in a transaction") { |db| db.transaction { db.call(:by_name, n: 2) } }
    add("prepared violation") { |db| db.call(:add, n: "Ada", a: 3) }
    add("bound variables") { |db| db[:authors].where(name: :$n).call(:select, n: "Ada").map { |row| row[:id] } }
    add("bound update") { |db| db[:authors].where(name: :$n).call(:update, {n: "Ada", a: 31}, age: :$a) }
    add("bound blob") { |db| db.select(Sequel.cast(:$b, :bytea).as(:b)).call(:first, b: Sequel.blob("\0\1"))[:b].bytes }
    add("fetch") { |db| db["select name from authors where id = ?", 1].all }
    add("several statements") { |db| db["select 1 as a; select 2 as b"].all }
    add("run") { |db| db.run("update authors set age = age where id = 1") }
    add("<<") { |db| db << "update authors set age = age where id = 1" && nil }
    add("execute_dui") { |db| db.execute_dui("update authors set age = age where id in (1, 2)") }

    add("copy_table") { |db| db.copy_table(db[:authors].where(id: [1, 2]).order(:id), format: :csv) }
    add("copy_table by row") { |db| [].tap { |rows| db.copy_table(db[:books].where(id: [1, 2]).order(:id).select(:id, :title)) { |row| rows << row } } }
    add("copy_table of an error") { |db| db.copy_table("COPY nowhere TO STDOUT") }
    add("copy_table that is left") { |db| db.copy_table(:books) { |_row| break } }
    add("after that") { |db| db[:books].count }
    add("copy_into") { |db| db.copy_into(:authors, columns: %i[name age], format: :csv, data: "C1,1\nC2,2\n") || db[:authors].where(name: %w[C1 C2]).count }
    add("copy_into by block") { |db| %W[C3\t3\n C4\t4\n].then { |lines| db.copy_into(:authors, columns: %i[name age]) { lines.shift } } || db[:authors].where(name: %w[C3 C4]).count }
    add("copy_into of an error") { |db| db.copy_into(:authors, columns: %i[name age], data: "C5\tx\n") }
    add("copy_into that raises") { |db| db.copy_into(:authors, columns: %i[name age]) { raise "no more" } }
    add("copy_into in a transaction") { |db| db.transaction { db.copy_into(:authors, columns: %i[name age], data: "C6\t6\n") || raise(Sequel::Rollback) } || db[:authors].where(name: "C6").count }
    add("listen") { |db| db.listen("nb_channel", after_listen: proc { db.notify("nb_channel", payload: "hello") }, timeout: 10) { |channel, _pid, payload| return_value(channel, payload) } }
    add("listen in vain") { |db| db.listen("nb_channel", timeout: 0.01) }
    add("notify") { |db| db.notify("nb_channel") }

    each_of(["select", "select * from nowhere", "select nothing from authors", "select 1/0", "select 'x'::int", "insert into authors values (1, 'x', 1)", "insert into authors (name, age) values (null, 1)",
      "insert into authors (name, age) values ('neg', -1)", "insert into books (title, author_id) values ('x', 999)", "select nowhere()", "select 1::nothing", "drop table nowhere", "set nothing to 1",
      "select 'x' = 1", "create table authors (n int)", "rollback to savepoint nowhere", "deallocate nowhere", "select * from authors where id = '"], "error of") { |db, sql| db.run(sql) }
    add("unique violation") { |db| db[:authors].insert(name: "Ada", age: 1) }
    add("its details") { |db| (db[:authors].insert(name: "Ada", age: 1) rescue $!).then { |error| db.error_info(error).values_at(:table, :constraint, :sql_state) } } # standard:disable Style/RescueModifier
    add("foreign key violation") { |db| db[:authors].where(id: 1).delete }
    add("check violation") { |db| db[:authors].insert(name: "Z", age: -1) }
    add("not null violation") { |db| db[:authors].insert(age: 1) }
    add("statement timeout") { |db| db.transaction { db.run("SET LOCAL statement_timeout TO 20") || db.run("select pg_sleep(5)") } }
    add("lock timeout") { |db| db.transaction { db[:books].where(id: 1).for_update.nowait.get(:id) } }
    add("serialization failure") { |db| db.run("do $$ begin raise sqlstate '40001'; end $$") }
    add("raised in a function") { |db| db.run("do $$ begin raise exception 'no'; end $$") }

    add("tables") { |db| db.tables.sort }
    add("views") { |db| db.create_view(:names, db[:authors].select(:name)) || db.views }
    add("of a view") { |db| db[:names].count.positive? }
    add("drop view") { |db| db.drop_view(:names) }
    each_of(%i[authors books], "schema of") { |db, table| db.schema(table) }
    each_of(%i[authors books], "indexes of") { |db, table| db.indexes(table) }
    each_of(%i[authors books], "foreign keys of") { |db, table| db.foreign_key_list(table) }
    add("check constraints") { |db| db.check_constraints(:authors).keys }
    add("primary key") { |db| [db.primary_key(:authors), db.primary_key_sequence(:authors)] }
    add("reset_primary_key_sequence") { |db| db.reset_primary_key_sequence(:counted) }
    add("table_exists?") { |db| [db.table_exists?(:authors), db.table_exists?(:nowhere)] }
    add("create, alter, drop") { |db| db.create_table(:passing3) { primary_key :id } || db.alter_table(:passing3) { add_column :n, Integer, default: 5 } || db[:passing3].insert && db[:passing3].get(:n).tap { db.drop_table(:passing3) } }
    add("create twice") { |db| db.create_table(:authors) { primary_key :id } }
    add("create if not exists") { |db| db.create_table?(:authors) { primary_key :id } }
    add("index") { |db| db.add_index(:books, :title) || db.indexes(:books).keys }
    add("concurrent index") { |db| db.add_index(:books, :price, concurrently: true) }
    add("rename") { |db| db.rename_table(:counted, :counted2) || db.tables.include?(:counted2) }
    add("create schema") { |db| db.create_schema(:other) && db.create_table(Sequel[:other][:t]) { Integer :n } || db[Sequel[:other][:t]].insert(n: 1) || db[Sequel[:other][:t]].get(:n) }
    add("drop schema") { |db| db.drop_schema(:other, cascade: true) }
    add("create function") { |db| db.create_function(:nb_one, "select 1", returns: :integer) && db.get(Sequel.function(:nb_one)) }
    add("enum") { |db| db.extension(:pg_enum) && db.create_enum(:mood, %w[sad ok]) || db.get(Sequel.lit("'ok'::mood")) }
    add("refresh view") { |db| db.create_view(:counts, db[:authors].select { count.function.*.as(:n) }, materialized: true) || db.refresh_view(:counts) || db[:counts].get(:n).positive? }
    add("vacuum") { |db| db.run("VACUUM authors") }
    add("nextval") { |db| db.get(Sequel.function(:nextval, "authors_id_seq")).class }
    add("locks") { |db| db.locks.all.is_a?(Array) }
    add("lock") { |db| db.transaction { db[:authors].lock("EXCLUSIVE") || db[:authors].count.positive? } }
    add("type_supported?") { |db| [db.type_supported?(:jsonb), db.type_supported?(:nonsense)] }
    add("server_version") { |db| db.server_version }
    add("test_connection") { |db| db.test_connection }
    add("freeze of a dataset") { |db| db[:authors].where(id: 1).then { |dataset| Array.new(12) { dataset.first[:id] } } }
    add("pg_auto_parameterize") { |db| db.extension(:pg_auto_parameterize) && [db[:authors].where(name: "Ada").get(:id), db[:books].where(id: [1, 2, 3]).where { price < 2.5 }.order(:id).select_map(:id), db[:authors].insert(name: "Auto", age: 9)] }
    add("model") { |db| Class.new(Sequel::Model(db[:authors])).then { |model| [model[1].name, model.create(name: "Model", age: 5).update(age: 6).age, model.where(name: "Model").first.destroy.name, model.count] } }
    add("an invalid model") { |db| Class.new(Sequel::Model(db[:authors])).create(name: "Ada", age: 5) }

    # @return [Array]
    def self.return_value(*values) = values
  end
end
