# frozen_string_literal: true

module NeverBlockTest
  class Differential
    # Statements that PostgreSQL refuses, their errors, and that the session goes on afterwards.
    Operations.area("violations") do
      add("not null") { authors.insert!({name: nil}) }
      add("not null by a model") { authors.create!(name: nil) }
      add("unique") { authors.create!(name: "Ada") }
      add("unique by save") { authors.new(name: "Ada").save }
      add("unique by insert!") { authors.insert!({name: "Ada"}) }
      add("unique by update") { authors.find(2).update!(name: "Ada") }
      add("unique by update_all") { authors.where(id: 2).update_all(name: "Ada") }
      add("create_or_find_by") { authors.create_or_find_by(name: "Ada").id }
      add("create_or_find_by!") { authors.create_or_find_by!(name: "Found or made").previously_new_record? }
      add("find_or_create_by") { [authors.find_or_create_by!(name: "Ada").id, authors.find_or_create_by!(name: "Found or made 2").previously_new_record?] }
      add("foreign key") { |c| c.execute("INSERT INTO books (author_id, title, created_at, updated_at) VALUES (99999, 'x', now(), now())") }
      add("foreign key of what is deleted") { authors.where(id: 1).delete_all }
      add("check") { authors.create!(name: "Young", age: -1) }
      add("exclusion") { rooms.create!(number: 1, during: 2..3) }
      add("no exclusion") { rooms.create!(number: 1, during: 50..60).during }
      add("too long") { authors.create!(name: "x" * 41) }
      add("too long for varchar(5)") { tokens.create!(id: "b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", value: "123456") }
      add("out of range of Rails") { authors.create!(name: "Old", age: 2**40) }
      add("out of range") { |c| c.execute("UPDATE authors SET age = 3000000000") }
      add("out of range in an expression") { |c| c.select_value("SELECT 2147483647 + 1") }
      add("numeric overflow") { books.create!(title: "dear", price: 10**12) }
      add("no value of an enum") { |c| c.execute("UPDATE authors SET mood = 'angry'") }
      add("no value of Rails' enum") { authors.new(mood: "angry") }
      add("a generated column") { |c| c.execute("UPDATE books SET shout = 'x'") }
      add("a domain") { |c| c.select_value("SELECT 101::percent") }
      add("an invalid record") { authors.create!(name: "Methuselah", age: 969) }
      add("a record that is not there") { authors.find(99_999) }
      add("records that are not there") { authors.find([1, 99_999]) }
      add("find_by!") { authors.find_by!(name: "Nobody") }
      add("sole of many") { authors.where(id: [1, 2]).sole }
      add("take! of none") { authors.none.take! }
      add("destroy of a read-only one") { authors.readonly.first.destroy }
      add("strict loading") { authors.strict_loading.first.books.to_a }
      add("a missing attribute") { authors.select(:id).first.name }
      add("an unknown attribute") { authors.new(nothing: 1) }
      add("an unknown column") { authors.where(nothing: 1).to_a }
      add("an ambiguous column") { authors.joins(:books).where("id = 1").to_a }
      add("an unknown association") { authors.joins(:nothing).to_a }
      add("an unknown unique index") { authors.upsert_all([{name: "x"}], unique_by: :age) }
      add("insert_all of different keys") { authors.insert_all([{name: "x"}, {age: 1}]) }
      add("upsert_all of the same row twice") { authors.upsert_all([{name: "Ada", age: 1}, {name: "Ada", age: 2}], unique_by: :name) }
      add("division by zero") { |c| c.select_value("SELECT 1 / 0") }
      add("a scalar of several rows") { |c| c.select_value("SELECT (SELECT id FROM authors)") }
      add("invalid UTF-8") { |c| c.select_value("SELECT convert_from('\\xff', 'UTF8')") }
      add("a syntax error") { |c| c.execute("SELEC 1") }
      add("an unknown table") { |c| c.execute("SELECT * FROM nowhere") }
      add("an unknown function") { |c| c.execute("SELECT nothing(1)") }
      add("an unknown type") { |c| c.execute("SELECT 1::nothing") }
      add("an unknown schema") { |c| c.execute("SELECT * FROM nowhere.nothing") }
      add("an unterminated string") { |c| c.execute("SELECT 'x") }
      add("an unterminated comment") { |c| c.execute("SELECT 1 /* x") }
      add("an unknown setting") { |c| c.execute("SET nothing TO 1") }
      add("a wrong value of a setting") { |c| c.execute("SET statement_timeout TO 'soon'") }
      add("an unknown cursor") { |c| c.transaction { c.execute("FETCH 1 FROM nowhere") } }
      add("an unknown prepared statement") { |c| c.execute("EXECUTE nowhere") }
      add("DEALLOCATE of none") { |c| c.execute("DEALLOCATE nowhere") }
      add("VACUUM in a transaction") { |c| c.transaction { c.execute("VACUUM seats") } }
      add("CREATE DATABASE in a transaction") { |c| c.transaction { c.execute("CREATE DATABASE nb_never") } }
      add("raised in a DO block") { |c| c.execute("DO $$ BEGIN RAISE EXCEPTION 'no' USING DETAIL = 'because', HINT = 'do not', ERRCODE = 'NB001'; END $$") }
      add("a warning") { |c| c.execute("DO $$ BEGIN RAISE WARNING 'careful'; END $$") }
      add("a notice") { |c| c.execute("DO $$ BEGIN RAISE NOTICE 'hello'; END $$") }
      add("warnings of a write") { |c| c.execute("CREATE FUNCTION warned() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'row %', NEW.row; RETURN NEW; END $$") && c.execute("CREATE TRIGGER warns BEFORE INSERT ON seats FOR EACH ROW EXECUTE FUNCTION warned()") && c.execute("INSERT INTO seats VALUES (90, 1), (90, 2)") }
      add("warnings of a model") { seats.create!(row: 90, number: 3).id }
      add("without them") { |c| c.execute("DROP FUNCTION warned CASCADE") && c.execute("DELETE FROM seats WHERE row = 90") }
      add("a raise in a function that is read") { |c| c.execute("CREATE FUNCTION refuse() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$") && c.select_value("SELECT refuse()") }
      add("insufficient rights") { |c| c.execute("CREATE ROLE nb_nobody") && c.transaction { c.execute("SET LOCAL ROLE nb_nobody") && c.select_value("SELECT count(*) FROM authors") } }
      add("as oneself again") { |c| [c.execute("DROP ROLE nb_nobody"), c.select_value("SELECT current_user")] }
      add("a cancelled statement") { |c| c.transaction { cancelled(c) } }
      add("errors and results in turn") { |c| Array.new(6) { |n| n.odd? ? failure { c.select_value("SELECT 1 / 0") } : c.select_value("SELECT #{n}") } }
      add("errors of binds in turn") { Array.new(4) { |n| n.odd? ? failure { authors.where("age = ?::int", "x").to_a } : authors.where("age > ?", n).count } }
      add("error_number") { |c| c.send(:translate_exception_class, RuntimeError.new("no"), "SELECT 1", []).class }
      add("invalid SQL in pluck") { authors.pluck("nothing") }
      add("SQL that is not trusted") { authors.order("length(name) DESC, nothing(1)").to_a }
      add("a stale plan") { stale }
    end
  end
end
