# frozen_string_literal: true

module NeverBlockTest
  class Differential
    # One record at a time, and many at once.
    Operations.area("records") do
      add("create!") { authors.create!(name: "New", age: 20, tags: %w[a b], details: {"x" => 1}) }
      add("create of many") { authors.create!([{name: "Many 1"}, {name: "Many 2"}]) }
      add("create with a block") { authors.create!(name: "Block") { |author| author.age = 9 } }
      add("save") { authors.new(name: "Saved").then { |author| [author.save, author.persisted?, author.previously_new_record?] } }
      add("update!") { authors.find_by(name: "New").tap { |author| author.update!(age: 21, mood: :glad) }.reload }
      add("update of nothing") { authors.find_by(name: "New").save! }
      add("update_column") { authors.find_by(name: "New").tap { |author| author.update_column(:age, 22) }.reload.age }
      add("update_columns") { authors.find_by(name: "New").update_columns(age: 23, tags: []) }
      add("update_attribute") { authors.find_by(name: "New").update_attribute(:age, 24) }
      add("increment!") { authors.find_by(name: "New").increment!(:age, 2).age }
      add("toggle of a store") { authors.find_by(name: "New").tap { |author| author.update!(colour: "red") }.reload.colour }
      add("touch") { authors.find_by(name: "New").touch }
      add("touch_all") { authors.where(name: "New").touch_all(time: LibraryModels::NOW) }
      add("reload") { authors.find(1).reload.name }
      add("reload of what is gone") { authors.create!(name: "Going").then { |author| authors.where(id: author.id).delete_all && author.reload } }
      add("destroy") { authors.create!(name: "Destroyed", books: [books.new(title: "Its own")]).destroy.books_count }
      add("destroy!") { authors.find_by(name: "Many 1").destroy!.frozen? }
      add("delete") { authors.find_by(name: "Many 2").delete.destroyed? }
      add("destroy_all") { authors.where(name: %w[Block Saved]).destroy_all.size }
      add("delete_all") { authors.where(name: "Nobody").delete_all }
      add("delete_by") { authors.delete_by(name: "Nobody") }
      add("update_all") { authors.where(id: 1..2).update_all("age = age + 1") }
      add("update_all with a join") { books.joins(:author).where(authors: {name: "Ada"}).update_all(price: 3) }
      add("update_all with a limit") { authors.order(:id).limit(1).update_all(mood: "glad") }
      add("delete_all with a join") { books.joins(:author).where(authors: {name: "Nobody"}).delete_all }
      add("update_counters") { authors.update_counters(1, books_count: 1) }
      add("reset_counters") { authors.reset_counters(1, :books) && authors.find(1).books_count }
      add("counter cache") { books.create!(title: "Counted", author: authors.find(1)).destroy && authors.find(1).books_count }
      add("composite keys") { [seats.find([1, 1]).guest, seats.create!(row: 5, number: 6, guest: "x").id, seats.where(row: 5).update_all(guest: "y"), seats.find([5, 6]).destroy.id, failure { seats.find([9, 9]) }] }
      add("uuid keys") { [tokens.find("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11").value, tokens.find_by(id: "no uuid"), failure { tokens.find("no uuid") }] }
      add("dirty") { authors.find(1).then { |author| (author.name = "Changed") && [author.changes, author.name_was, author.restore_attributes] } }
      add("saved_changes") { authors.find_by(name: "New").tap { |author| author.update!(age: 30) }.saved_changes }
      add("enum") { [authors.glad.order(:id).pluck(:id), authors.not_glad.count, authors.find(1).glad?, authors.find(1).tap(&:sad!).mood, authors.moods] }
      add("Rails' enum") { [books.printed.count, books.first.status, books.where(status: :draft).count] }
      add("a virtual column") { books.create!(title: "quiet").reload.shout }
      add("dup") { authors.find(1).dup.tap { |author| author.name = "Copy" }.save! }
      add("becomes") { authors.find(1).becomes(authors).name }
      add("insert_all") { authors.insert_all([{name: "I1"}, {name: "I2"}, {name: "Ada"}]) }
      add("insert_all!") { authors.insert_all!([{name: "I3"}, {name: "Ada"}]) }
      add("insert_all of none") { authors.insert_all([]) }
      add("insert_all returning") { authors.insert_all([{name: "I4", age: 4}], returning: %i[name age]) }
      add("insert_all returning SQL") { authors.insert_all([{name: "I5"}], returning: Arel.sql("name AS n, 1 AS one")) }
      add("insert_all returning nothing") { authors.insert_all([{name: "I6"}], returning: false) }
      add("insert_all with unique_by") { authors.insert_all([{name: "I6"}, {name: "I7"}], unique_by: :index_authors_on_name, returning: :name) }
      add("insert_all without timestamps") { seats.insert_all([{row: 7, number: 1}, {row: 7, number: 2}], record_timestamps: false) }
      add("upsert") { authors.upsert({name: "I7", age: 7}, unique_by: :name, returning: %i[name age]) }
      add("upsert_all") { authors.upsert_all([{name: "I7", age: 8}, {name: "I8", age: 9}], unique_by: :name, returning: %i[name age]) }
      add("upsert_all update_only") { authors.upsert_all([{name: "I8", age: 10, mood: "glad"}], unique_by: :name, update_only: :age, returning: %i[age mood]) }
      add("upsert_all on_duplicate") { authors.upsert_all([{name: "I8", age: 5}], unique_by: :name, on_duplicate: Arel.sql("age = authors.age + excluded.age"), returning: :age) }
      add("upsert_all skip") { authors.upsert_all([{name: "I8", age: 5}], unique_by: :name, on_duplicate: :skip, returning: :age) }
      add("upsert of a composite key") { seats.upsert({row: 7, number: 1, guest: "z"}) }
      add("insert_all of many") { seats.insert_all(Array.new(300) { |n| {row: 8, number: n} }).length }
      add("find_each") { [].tap { |ids| authors.find_each(batch_size: 2) { |author| ids << author.id } } }
      add("find_each from and to") { authors.find_each(start: 2, finish: 3, batch_size: 1).map(&:id) }
      add("find_each descending") { authors.find_each(batch_size: 2, order: :desc).map(&:id) }
      add("find_in_batches") { authors.find_in_batches(batch_size: 3).map(&:size) }
      add("in_batches") { authors.in_batches(of: 2).map { |some| some.pluck(:id) } }
      add("in_batches, loaded") { authors.in_batches(of: 2, load: true).map { |some| some.map(&:name) } }
      add("in_batches, ranges") { authors.in_batches(of: 2, use_ranges: true).map { |some| some.count } }
      add("in_batches of a composite key") { seats.where(row: 8).in_batches(of: 100).map(&:count) }
      add("in_batches.update_all") { seats.where(row: 8).in_batches(of: 100).update_all(guest: "g") }
      add("in_batches.delete_all") { seats.where(row: 8).in_batches(of: 120).delete_all }
      add("in_batches.each_record") { authors.in_batches(of: 2).each_record.map(&:id) }
      add("in_batches in a transaction") { authors.transaction { authors.in_batches(of: 4).map(&:count) } }
      add("what is left") { |c| [authors.order(:id).pluck(:name), seats.delete_by(row: 7), authors.where("name LIKE 'I_'").delete_all] }
      add("signed_id") { authors.find(1).to_key }
      add("fixtures' insert") { |c| c.insert_fixture({"row" => 9, "number" => 1, "guest" => "fixed"}, "seats") }
      add("insert_fixtures_set") { |c| c.insert_fixtures_set({"seats" => [{"row" => 9, "number" => 2}], "tokens" => [{"id" => "c0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "value" => "f"}]}, ["seats"]) && [seats.count, tokens.count] }
      add("seats again") { seats.insert_all!([{row: 1, number: 1, guest: "Ada"}, {row: 1, number: 2, guest: nil}]) }
    end
  end
end
