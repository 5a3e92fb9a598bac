# frozen_string_literal: true

NeverBlockTest::MySQLDifferential::Operations.area("transactions") do
  add("commit") { |c| c.transaction { authors.create!(name: "t1") } }
  add("rollback") { |c| c.transaction { authors.create!(name: "t2") && raise(ActiveRecord::Rollback) } || authors.exists?(name: "t2") }
  add("an error") { |c| c.transaction { authors.create!(name: "t3") && raise("no") } }
  add("after an error") { |_c| authors.exists?(name: "t3") }
  add("nested") { |c| c.transaction { c.transaction { authors.create!(name: "t4") && raise(ActiveRecord::Rollback) } } || authors.exists?(name: "t4") }
  add("requires_new") { |c| c.transaction { authors.create!(name: "t5") && c.transaction(requires_new: true) { authors.create!(name: "t6") && raise(ActiveRecord::Rollback) } } || authors.where(name: %w[t5 t6]).pluck(:name) }
  add("three deep") { |c| c.transaction { c.transaction(requires_new: true) { c.transaction(requires_new: true) { authors.create!(name: "t7") } } } }
  add("joinable") { |c| c.transaction(joinable: false) { c.transaction { authors.create!(name: "t8") && raise(ActiveRecord::Rollback) } } || authors.exists?(name: "t8") }
  each_of(%i[read_uncommitted read_committed repeatable_read serializable nonsense], "isolation") { |c, level| c.transaction(isolation: level) { c.select_value("select @@tx_isolation") } }
  add("isolation inside") { |c| c.transaction { c.transaction(isolation: :serializable) { 1 } } }
  add("isolation and requires_new") { |c| c.transaction { c.transaction(isolation: :serializable, requires_new: true) { 1 } } }
  add("an error of the server inside") { |c| c.transaction { (c.execute("selekt") rescue nil) && nil || authors.create!(name: "t9") } && authors.exists?(name: "t9") } # standard:disable Style/RescueModifier
  add("a violation in a savepoint") do |c|
    c.transaction do
      authors.create!(name: "t10")
      c.transaction(requires_new: true) { authors.create!(name: "t10") }
    rescue ActiveRecord::RecordNotUnique
      authors.where(name: "t10").count
    end
  end
  add("throw") { |c| catch(:out) { c.transaction { authors.create!(name: "t11") && throw(:out, 5) } } }
  add("after throw") { |_c| authors.exists?(name: "t11") }
  add("a definition inside") { |c| c.transaction { authors.create!(name: "t12") && c.execute("create table inside_t (n int)") && raise(ActiveRecord::Rollback) } || authors.exists?(name: "t12") }
  add("begin by hand") { |c| c.execute("begin") && c.execute("insert into watched (n) values (77)") && c.execute("rollback") && c.select_value("select count(*) from watched where n = 77") }
  add("start transaction read only") { |c| c.execute("start transaction read only") && c.execute("insert into watched (n) values (78)") }
  add("savepoints by hand") { |c| c.transaction { %w[savepoint\ a insert\ into\ watched\ (n)\ values\ (79) rollback\ to\ a release\ savepoint\ a].each { |sql| c.execute(sql) } } && c.select_value("select count(*) from watched where n = 79") }
  add("an unknown savepoint") { |c| c.transaction { c.execute("rollback to nowhere") } }
  add("commit and chain") { |c| %w[begin commit\ and\ chain rollback].each { |sql| c.execute(sql) } }
  add("autocommit off") { |c| c.execute("set autocommit = 0") && c.execute("insert into watched (n) values (80)") && c.execute("rollback") && c.select_value("select count(*) from watched where n = 80") }
  add("after autocommit off") { |c| c.select_value("select @@autocommit") }
  add("begin in begin") { |c| c.execute("begin") && c.execute("insert into watched (n) values (81)") && c.execute("begin") && c.execute("rollback") && c.select_value("select count(*) from watched where n = 81") }
  add("after_commit") { |c| c.transaction { authors.create!(name: "t13") && authors.create!(name: "t14") } && NeverBlockTest::MySQLDifferential::Models.events.dup }
  add("after_rollback") { |c| c.transaction { authors.create!(name: "t15") && raise(ActiveRecord::Rollback) } || NeverBlockTest::MySQLDifferential::Models.events.dup }
  add("transaction_open?") { |c| [c.transaction_open?, c.transaction { c.transaction_open? }] }
  add("lazy") { |c| c.transaction { 5 } }
  add("materialized") { |c| c.transaction { c.materialize_transactions && 5 } }
  add("within_new_transaction") { |c| c.within_new_transaction { c.current_transaction.open? } }
  add("a lock wait timeout") do |c|
    c.execute("set innodb_lock_wait_timeout = 1")
    c.transaction do
      authors.find(1).lock!
      [c.open_transactions, beside("set innodb_lock_wait_timeout = 1; update authors set age = 1 where id = 1")]
    rescue RuntimeError => error
      error.message[/ERROR \d+/]
    end
  end
end
