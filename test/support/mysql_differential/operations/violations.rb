# frozen_string_literal: true

NeverBlockTest::MySQLDifferential::Operations.area("violations") do
  {
    "unique" => "insert into authors (name, created_at, updated_at) values ('Ada', now(), now())", "not null" => "insert into books (title) values (null)",
    "foreign key" => "insert into books (title, author_id) values ('x', 9999)", "parent" => "delete from authors where id = 1", "check" => "update authors set age = -1 where id = 1",
    "too long" => "insert into authors (name, created_at, updated_at) values (repeat('x', 99), now(), now())", "out of range" => "update authors set age = 99999999999 where id = 1",
    "no default" => "insert into books (price) values (1)", "syntax" => "selekt 1", "no such table" => "select * from nowhere", "no such column" => "select nothing from authors",
    "no such function" => "select no_such_function(1)", "no such database" => "use nowhere", "division" => "select 1 div 0", "wrong date" => "update books set published_on = '2026-02-30' where id = 1",
    "ambiguous" => "select id from authors join books", "wrong group" => "select name from authors group by nonsense", "subquery of two" => "select (select id from authors where id < 3)",
    "duplicate table" => "create table authors (n int)", "duplicate column" => "alter table authors add name int", "duplicate index" => "create index index_authors_on_name on authors (name)",
    "wrong argument count" => "select lower()", "an unknown setting" => "set no_such_setting = 1", "a read only setting" => "set version = 'x'", "an unterminated string" => "select 'a",
    "an unknown character set" => "set names nonsense", "signal" => "signal sqlstate '45000' set message_text = 'by hand'", "an empty update" => "update authors set"
  }.each { |name, sql| add(name) { |c| c.execute(sql) } }

  add("after an error") { |c| c.select_value("select 1") }
  add("of a record") { |_c| authors.create!(name: "Ada") }
  add("of a record with too long a name") { |_c| authors.create!(name: "x" * 99) }
  add("of a record without a name") { |_c| authors.create! }
  add("of a range") { |_c| samples.create!(a_tinyint: 1000) }
  add("of a foreign key by a record") { |_c| books.create!(title: "x", author_id: 9999) }
  add("while_preventing_writes") { |_c| ActiveRecord::Base.while_preventing_writes { authors.create!(name: "prevented") } }
  add("while_preventing_writes, a read") { |_c| ActiveRecord::Base.while_preventing_writes { authors.find(1).name } }
end
