# frozen_string_literal: true

module NeverBlockTest
  class Differential
    # Transactions, savepoints, isolation, locks, and recovery after errors.
    Operations.area("transactions") do
      add("commit") { authors.transaction { authors.create!(name: "commit") && authors.where(name: "commit").count } }
      add("an empty one") { authors.transaction { :nothing } }
      add("one of reads") { authors.transaction { authors.count } }
      add("roll back") { authors.transaction { authors.create!(name: "gone") && raise(ActiveRecord::Rollback) } || authors.where(name: "gone").count }
      add("an exception") { authors.transaction { authors.create!(name: "gone") && raise("no") } }
      add("nothing of it") { authors.where(name: "gone").count }
      add("return from it") { [-> { authors.transaction { authors.create!(name: "returned") && (return 7) } }.call, authors.where(name: "returned").count] }
      add("throw from it") { [catch(:out) { authors.transaction { authors.create!(name: "thrown") && throw(:out, 7) } }, authors.where(name: "thrown").count] }
      add("break from it") { [[1].each { authors.transaction { authors.create!(name: "broken off") && break } }, authors.where(name: "broken off").count] }
      add("joined") { authors.transaction { authors.transaction { authors.create!(name: "joined") && raise(ActiveRecord::Rollback) } && 1 } || authors.where(name: "joined").count }
      add("requires_new") { authors.transaction { authors.create!(name: "outer") && authors.transaction(requires_new: true) { authors.create!(name: "inner") } && authors.where(name: %w[outer inner]).count } }
      add("requires_new that is rolled back") { authors.transaction { authors.create!(name: "outer 2") && authors.transaction(requires_new: true) { authors.create!(name: "inner 2") && raise(ActiveRecord::Rollback) } } || authors.where(name: ["outer 2", "inner 2"]).pluck(:name) }
      add("requires_new first") { authors.transaction { authors.transaction(requires_new: true) { authors.create!(name: "inner 3") && raise(ActiveRecord::Rollback) } || authors.create!(name: "outer 3") } && authors.where(name: ["outer 3", "inner 3"]).pluck(:name) }
      add("requires_new twice") { authors.transaction { Array.new(2) { |n| authors.transaction(requires_new: true) { authors.create!(name: "twice #{n}") } }.size } }
      add("an error in requires_new") { authors.transaction { authors.create!(name: "kept") && [failure { authors.transaction(requires_new: true) { authors.create!(name: "Ada") } }, authors.where(name: "kept").count] } }
      add("an error, and on in vain") { authors.transaction { [failure { authors.create!(name: "Ada") }, failure { authors.count }, failure { authors.transaction(requires_new: true) { authors.count } }] } }
      add("an error, and committed") { |c| c.transaction { failure { c.execute("SELECT nonsense") } && :rescued } }
      add("an error by hand, and COMMIT") { |c| [c.execute("BEGIN"), failure { c.execute("SELECT nonsense") }, c.execute("COMMIT").cmd_status] }
      add("joinable: false") { authors.transaction(joinable: false) { authors.transaction { authors.create!(name: "real savepoint") && raise(ActiveRecord::Rollback) } } || authors.where(name: "real savepoint").count }
      each_of(%i[read_uncommitted read_committed repeatable_read serializable], "isolation") { |c, level| c.transaction(isolation: level) { c.select_value("SHOW transaction_isolation") } }
      add("isolation in a transaction") { |c| c.transaction { c.transaction(isolation: :serializable) { 1 } } }
      add("isolation that there is not") { |c| c.transaction(isolation: :perfect) { c.select_value("SELECT 1") } }
      add("SET TRANSACTION") { |c| c.transaction { c.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE") && c.select_rows("SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only')") } }
      add("SET TRANSACTION too late") { |c| c.transaction { c.select_value("SELECT 1") && c.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE") } }
      add("read only") { |c| c.transaction { c.execute("SET TRANSACTION READ ONLY") && authors.create!(name: "ro") } }
      add("SET LOCAL") { |c| [c.transaction { c.execute("SET LOCAL statement_timeout TO '7s'") && c.select_value("SHOW statement_timeout") }, c.select_value("SHOW statement_timeout")] }
      add("set_config of a transaction") { |c| [c.transaction { c.select_value("SELECT set_config('app.tenant', '7', true)") && c.select_value("SELECT current_setting('app.tenant')") }, c.select_value("SELECT coalesce(current_setting('app.tenant', true), '')")] }
      add("SET that a transaction takes back") { |c| [c.transaction { c.execute("SET statement_timeout TO '7s'") && raise(ActiveRecord::Rollback) }, c.select_value("SHOW statement_timeout")] }
      add("savepoints by hand") { |c| c.transaction { c.create_savepoint("mine") || c.execute("INSERT INTO seats VALUES (70, 1)") && c.exec_rollback_to_savepoint("mine") || c.release_savepoint("mine") } || c.select_value("SELECT count(*) FROM seats WHERE row = 70") }
      add("a savepoint that there is not") { |c| c.transaction { c.execute("ROLLBACK TO SAVEPOINT nowhere") } }
      add("a savepoint outside") { |c| c.execute("SAVEPOINT outside") }
      add("ROLLBACK outside") { |c| c.execute("ROLLBACK") }
      add("COMMIT outside") { |c| c.execute("COMMIT") }
      add("BEGIN twice") { |c| [c.execute("BEGIN"), c.execute("BEGIN"), c.execute("COMMIT")].map(&:cmd_status) }
      add("BEGIN by hand") { |c| [c.execute("BEGIN"), c.execute("INSERT INTO seats VALUES (71, 1)"), c.execute("ROLLBACK"), c.select_value("SELECT count(*) FROM seats WHERE row = 71")] }
      add("START TRANSACTION") { |c| [c.execute("START TRANSACTION READ ONLY"), c.select_value("SHOW transaction_read_only"), c.execute("END")] }
      add("AND CHAIN") { |c| [c.execute("BEGIN"), c.execute("INSERT INTO seats VALUES (72, 1)"), c.execute("COMMIT AND CHAIN"), c.execute("INSERT INTO seats VALUES (72, 2)"), c.execute("ROLLBACK AND CHAIN"), c.execute("ROLLBACK"), c.select_value("SELECT count(*) FROM seats WHERE row = 72")] }
      add("AND CHAIN outside") { |c| c.execute("COMMIT AND CHAIN") }
      add("PREPARE TRANSACTION") { |c| [c.execute("BEGIN"), c.execute("INSERT INTO seats VALUES (73, 1)"), failure { c.execute("PREPARE TRANSACTION 'nb'") }] }
      add("transaction_open?") { |c| [c.transaction_open?, c.transaction { [c.transaction_open?, c.open_transactions, c.transaction(requires_new: true) { c.open_transactions }] }, c.open_transactions] }
      add("current_transaction") { |c| [c.current_transaction.open?, c.transaction { |t| [t.open?, t.closed?, c.current_transaction.joinable?] }] }
      add("raw transaction_status") { |c| c.transaction { c.select_value("SELECT 1") && c.raw_connection.transaction_status } }
      add("after_commit") { watched { authors.transaction { authors.create!(name: "cb 1") && Models.events << "in it" } } }
      add("after_rollback") { watched { authors.transaction { authors.create!(name: "cb 2") && raise(ActiveRecord::Rollback) } } }
      add("callbacks of a savepoint") { watched { authors.transaction { authors.transaction(requires_new: true) { authors.create!(name: "cb 3") && raise(ActiveRecord::Rollback) } || authors.create!(name: "cb 4") } } }
      add("after_all_transactions_commit") { watched { authors.transaction { ActiveRecord.after_all_transactions_commit { Models.events << "all" } && authors.create!(name: "cb 5") } } }
      add("transaction.after_commit") { watched { authors.transaction { |t| t.after_commit { Models.events << "mine" } || authors.create!(name: "cb 6") } } }
      add("deferred constraints") { |c| c.execute("CREATE TABLE later (id int PRIMARY KEY, of int REFERENCES later DEFERRABLE)") && c.transaction { c.set_constraints(:deferred) && c.execute("INSERT INTO later VALUES (1, 2)") && c.execute("INSERT INTO later VALUES (2, NULL)") } && c.select_value("SELECT count(*) FROM later") }
      add("a commit that fails") { |c| c.transaction { c.set_constraints(:deferred) && c.execute("INSERT INTO later VALUES (3, 4)") } }
      add("after that") { |c| [c.select_value("SELECT count(*) FROM later"), c.open_transactions] }
      add("SET CONSTRAINTS IMMEDIATE") { |c| c.transaction { c.set_constraints(:deferred) && c.execute("INSERT INTO later VALUES (3, 4)") && c.set_constraints(:immediate) } }
      add("SET CONSTRAINTS outside") { |c| c.set_constraints(:deferred) }
      add("disable_referential_integrity") { |c| c.disable_referential_integrity { c.execute("INSERT INTO books (author_id, title, created_at, updated_at) VALUES (99999, 'orphan', '2026-01-01', '2026-01-01')") } && c.execute("DELETE FROM books WHERE title = 'orphan'") }
      add("check_all_foreign_keys_valid!") { |c| c.check_all_foreign_keys_valid! }
      add("lock") { authors.transaction { authors.lock.find(1).name } }
      add("lock outside") { authors.lock.where(id: 1).pluck(:name) }
      each_of(["FOR SHARE", "FOR NO KEY UPDATE", "FOR KEY SHARE", "FOR UPDATE SKIP LOCKED", "FOR UPDATE NOWAIT", "FOR UPDATE OF authors"], "lock") { |_c, clause| authors.transaction { authors.lock(clause).find(1).name } }
      add("with_lock") { authors.find(1).with_lock { |author| authors.find(1).name } }
      add("lock!") { authors.transaction { authors.find(1).lock!.name } }
      add("lock! of a changed one") { authors.transaction { authors.find(1).tap { |author| author.name = "x" }.lock! } }
      add("LOCK TABLE") { |c| c.transaction { c.execute("LOCK TABLE seats IN ACCESS EXCLUSIVE MODE") && c.select_value("SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND mode = 'AccessExclusiveLock'") } }
      add("LOCK TABLE outside") { |c| c.execute("LOCK TABLE seats") }
      add("NOWAIT of what is locked") { busy("SELECT * FROM authors WHERE id = 1 FOR UPDATE") { authors.lock("FOR UPDATE NOWAIT").find(1) } }
      add("SKIP LOCKED") { busy("SELECT * FROM authors WHERE id = 1 FOR UPDATE") { authors.lock("FOR UPDATE SKIP LOCKED").order(:id).first.id } }
      add("lock timeout") { |c| busy("LOCK TABLE seats") { c.transaction { c.execute("SET LOCAL lock_timeout TO 20") && c.execute("INSERT INTO seats VALUES (74, 1)") } } }
      add("statement timeout") { |c| c.transaction { c.execute("SET LOCAL statement_timeout TO 150") && c.select_value("SELECT pg_sleep(5)") } }
      add("statement timeout in a savepoint") { |c| c.transaction { c.execute("SET LOCAL statement_timeout TO 150") && [failure { c.transaction(requires_new: true) { c.select_value("SELECT pg_sleep(5)") } }, c.select_value("SELECT 1")] } }
      add("deadlock") { |c| deadlock(c) }
      add("serialization failure") { |c| c.transaction(isolation: :serializable) { c.select_value("SELECT sum(number) FROM seats") && other("UPDATE seats SET guest = 'other' WHERE row = 1") && c.execute("UPDATE seats SET guest = 'mine' WHERE row = 1") } }
      add("repeatable read sees what was") { |c| c.transaction(isolation: :repeatable_read) { [c.select_value("SELECT count(*) FROM seats"), other("INSERT INTO seats VALUES (80, 1)").class, c.select_value("SELECT count(*) FROM seats")] } }
      add("optimistic locking") { authors.find(2).then { |one| authors.find(2).update!(age: 40) && failure { one.update!(age: 41) } } }
      add("increments under a lock") { authors.find(1).with_lock { authors.where(id: 1).update_all("age = age + 1") } }
      add("pg_advisory_xact_lock") { |c| c.transaction { c.select_value("SELECT pg_advisory_xact_lock(5)") && c.select_value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()") } }
      add("get_advisory_lock") { |c| [c.get_advisory_lock(7), c.get_advisory_lock(7), c.release_advisory_lock(7), c.release_advisory_lock(7), c.release_advisory_lock(7)] }
      add("an advisory lock that another has") { |c| busy("SELECT pg_advisory_lock(8)") { c.get_advisory_lock(8) } }
      add("with_advisory_lock") { |c| c.get_advisory_lock(9) && c.transaction { c.select_value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 9 AND pid = pg_backend_pid()") }.tap { c.release_advisory_lock(9) } }
      add("the id of a transaction") { |c| c.transaction { Array.new(2) { c.select_value("SELECT txid_current()") }.uniq.size } }
      add("now stands still") { |c| c.transaction { Array.new(2) { c.select_value("SELECT now()") }.uniq.size } }
      add("lazy transactions") { |c| statements { c.transaction { 1 } } }
      add("a transaction that reads no more") { |c| statements { c.transaction { c.transaction(requires_new: true) { c.select_value("SELECT 1") } } } }
      add("restart of a transaction") { |c| statements { c.transaction { c.execute("SELECT 1") && c.transaction(requires_new: true) { c.execute("INSERT INTO seats VALUES (75, 1)") && raise(ActiveRecord::Rollback) } } } }
      add("roll back to nothing and on") { |c| statements { c.transaction { c.transaction(requires_new: true) { c.execute("INSERT INTO seats VALUES (75, 1)") && raise(ActiveRecord::Rollback) } || c.execute("SELECT 2") } } }
      add("begin_db_transaction") { |c| [c.begin_db_transaction.class, c.execute("INSERT INTO seats VALUES (76, 1)").cmd_tuples, c.rollback_db_transaction.class, c.select_value("SELECT count(*) FROM seats WHERE row = 76")] }
      add("cleaned up") { |c| c.execute("DELETE FROM seats WHERE row > 1").cmd_tuples }
    end
  end
end
