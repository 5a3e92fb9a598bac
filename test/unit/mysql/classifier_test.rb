# frozen_string_literal: true

require "test_helper"
require "support/classified"
require "neverblock/mysql/classifier"

# What connection a statement needs, by its text. A :read that is none would leak: when in doubt, it is a :session.
class MySQLClassifierTest < Minitest::Test
  extend NeverBlockTest::Classified

  Classifier = NeverBlock::MySQL::Classifier
  CLASSIFIER = Classifier.new(shareable_functions: ["Price"], risky: {"audited" => "which is a view"})

  def check_reason(classification) = refute_empty(classification.reason)

  judged :read,
    "select 1", "SELECT 1;", "select 1; -- all\n;", "(select 1) union all (select 2) order by 1 limit 3",
    "SELECT `users`.* FROM `users` WHERE `users`.`id` = 1 LIMIT 1",
    "SELECT 1 AS one FROM `users` WHERE `users`.`name` = 'a; SET @x = 1' LIMIT 1",
    "SELECT COUNT(*) AS `count_all`, `users`.`kind` FROM `users` GROUP BY `users`.`kind` HAVING (COUNT(*) > 2)",
    "SELECT SUM(`a`.`b`) FROM `a` INNER JOIN `c` ON (`c`.`id` = `a`.`c_id`) WHERE `a`.`d` IN (1, 2) AND NOT (1 OR (2))",
    "select sleep(1)", "select now(6), rand(), uuid(), connection_id(), database(), version()",
    "select lower(name), price(id) from items", "select price (id) from items", "select `price`(1)",
    "select cast(a as char(10)), convert(b, decimal(10, 2)), if(a, 1, 2), left(a, 3), replace(a, 'b', 'c'), insert(a, 1, 2, 'b') from c",
    "select * from a use index (b) where match (c) against ('d' in boolean mode)",
    "select row_number() over (partition by (a) order by (b)) from c",
    "with `a` (b) as (select 1), c as (select 2) select * from a, c",
    "with recursive a(b) as (select 1 union all select b + 1 from a where b < 5) select * from a",
    "select @@version, @@session.sql_mode, @@global.max_connections, @@FOREIGN_KEY_CHECKS",
    "select * from a where b = 1 for update", "select * from a lock in share mode",
    "select * from a partition (p0) where b between (1) and (2) and c = any (select 1) and exists (select 2)",
    "SHOW FULL FIELDS FROM `users`", "SHOW KEYS FROM `users`", "SHOW CREATE TABLE `users`", "show tables like 'a%'",
    "SHOW VARIABLES LIKE 'max_allowed_packet'", "show full processlist", "show table status",
    "EXPLAIN SELECT 1", "describe users", "DESC `users`", "analyze format=json select 1 from a",
    "values row(1, 2), row(3, 4)", "table users", "select '@x' as `@y`"

  judged :write,
    "INSERT INTO `users` (`name`) VALUES ('a')", "insert ignore into a.b (c) values (1) on duplicate key update c = values(c)",
    "insert users (a) values (1)", "replace into `a` (`b`) values (1)", "replace a (b) select 1",
    "INSERT INTO `a` (`b`) VALUES (1) RETURNING `id`", "update a set b = 1 where c = 2 limit 1", "delete from a where b = 1",
    "UPDATE `a` INNER JOIN `b` ON (`b`.`id` = `a`.`id`) SET `a`.`c` = 1", "delete a, b from a join b using (c)",
    "with a as (select 1) delete from b where c in (select * from a)", "SELECT SQL_CALC_FOUND_ROWS * FROM a LIMIT 1",
    "insert into a set b = now()", "insert into a select lower(b) from c"

  judged :residue,
    "select last_insert_id()", "SELECT LAST_INSERT_ID ( )", "select row_count()", "select FOUND_ROWS()", "select @@identity",
    "select @@session.last_insert_id", "select @@warning_count", "show warnings", "SHOW WARNINGS LIMIT 3", "show errors",
    "show count(*) warnings", "insert into a (b) values (last_insert_id())"

  judged :definition,
    "CREATE TABLE `a` (`id` bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, `b` varchar(255), INDEX `c` (`b`))",
    "CREATE TABLE a SELECT lower(b) FROM c", "ALTER TABLE `a` ADD `b` datetime(6) DEFAULT now(6)", "DROP TABLE IF EXISTS `a`",
    "truncate table a", "CREATE UNIQUE INDEX `a` ON `b` (`c`)", "RENAME TABLE a TO b", "optimize table a", "ANALYZE TABLE a",
    "create trigger a before insert on b for each row set @x = get_lock('a', 1)", "create database a",
    "create definer=`root`@`localhost` view a as select get_lock('b', 1)",
    "create or replace function f() returns int begin set @x = 1; return 1; end".delete(";")

  judged :begin, "BEGIN", "begin work", "START TRANSACTION", "start transaction read only", "start transaction with consistent snapshot"
  judged :commit, "COMMIT", "commit work", "COMMIT AND CHAIN"
  judged :rollback, "ROLLBACK", "ROLLBACK AND CHAIN"
  judged :savepoint, "SAVEPOINT active_record_1", "RELEASE SAVEPOINT active_record_1", "ROLLBACK TO SAVEPOINT a", "rollback work to a"
  judged :isolation, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
  judged :set, "SET @x = 1", "set session transaction isolation level serializable", "SET NAMES utf8mb4", "set sql_mode = ''"

  unsure(/user variable/, "select @x", "select @x := 1", "update a set b = @c", "select 1 from a where b = @`c`")
  unsure(/calls get_lock/, "SELECT GET_LOCK('a', 0)", "select `get_lock`('a', 1)", "select 1 from a where get_lock('a', 1)")
  unsure(/calls last_insert_id/, "update a set b = last_insert_id(b + 1)")
  unsure(/calls f\(\)/, "select f(1)", "select a.f(1)", "select `a`.`f`(1)", "insert into a values (f(1))", "select 1 from a join f(2)",
    "select a from b where c in (f(d))", "create table a as select f(1)")
  unsure(/calls 1now/, "select 1now()")
  unsure(/of a database/, "select shop.lower(1)")
  unsure(/INTO/, "select a from b into outfile '/tmp/x'", "select 1 into x")
  unsure(/audited/, "select * from audited", "insert into `Audited` values (1)", "select 1 from shop.audited a")
  unsure(/several/, "select 1; select 2", "begin; delete from a")
  unsure(/TEMPORARY/, "create temporary table a (b int)", "drop temporary table a")
  unsure(/the database/, "drop database shop", "drop schema if exists shop", "create or replace database shop")
  unsure(/read/, "select 'a", "select /*! 1 */", "select /*M! 1 */")
  unsure(/\A[A-Z ]+\z/, "call p()", "lock tables a write", "unlock tables", "prepare a from 'select 1'", "execute a", "use shop",
    "load data infile 'a' into table b", "do get_lock('a', 1)", "xa start 'a'", "kill 1", "handler a open", "flush tables",
    "BEGIN NOT ATOMIC", "commit release", "START SLAVE", "grant all on *.* to a", "show profiles", "deallocate prepare a")
  unsure(/EXPLAIN of a write/, "explain delete from a")
  unsure(/no statement/, "", ";", "-- nothing")
  unsure(/it calls nextval/, "select nextval(s)", "alter table a add b int default nextval(s)")
  unsure(/VALUE/, "select next value for s", "select previous value for s")

  def test_without_the_catalogue_nothing_is_sure
    blind = Classifier.new(risky: nil)
    assert_equal :session, blind.call("select 1 from a").kind
    assert_equal :session, blind.call("insert into a values (1)").kind
    assert_equal :begin, blind.call("begin").kind
  end

  # In latin1 the byte 0xA0 is a blank; in GBK a second byte may look like a backslash.
  def test_bytes_outside_of_ascii_in_other_character_sets
    %w[latin1 gbk cp932 koi8r].each do |charset|
      classifier = Classifier.new(charset:)
      assert_match charset, classifier.call("select 'é'").reason
      assert_equal [:session, :session], [classifier.call("select 1 from\xA0t".b).kind, classifier.call("select '\xD5\x5C'".b).kind]
      assert_equal [:read, :begin], [classifier.call("select 1").kind, classifier.call("begin").kind]
    end
    %w[utf8 utf8mb3 utf8mb4 ascii binary].each { |charset| assert_equal :read, Classifier.new(charset:).call("select 'é'").kind }
  end

  def test_texts_that_differ_in_literals_are_read_once
    classifier = Classifier.new(sql_mode: "ANSI_QUOTES")
    assert_same classifier.call("select `a 1` from b where c = 1"), classifier.call("select `a 1` from b where c = 2")
    refute_same classifier.call("select `a 1` from b"), classifier.call("select `a 2` from b")
    refute_same classifier.call("set @a = 1"), classifier.call("set @a = 2")
  end
end
