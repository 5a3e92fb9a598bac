# frozen_string_literal: true

NeverBlockTest::MySQLDifferential::Operations.area("records") do
  add("create") { |_c| authors.create!(name: "Dee", age: 5) }
  add("create of what is invalid") { |_c| authors.create!(name: "Old", age: 500) }
  add("find") { |_c| authors.find(1) }
  add("find of several") { |_c| authors.find([2, 1]) }
  add("find of none") { |_c| authors.find(99) }
  add("find_by") { |_c| authors.find_by(name: "Bob") }
  add("find_or_create_by") { |_c| authors.find_or_create_by!(name: "Eve") }
  add("create_or_find_by") { |_c| authors.create_or_find_by!(name: "Ada") }
  add("update") { |_c| authors.find(1).update!(age: 32) }
  add("update without a change") { |_c| authors.find(1).update!(age: 32) }
  add("a stale record") { |_c| [authors.find(1), authors.find(1)].each_with_index { |author, n| author.update!(age: 40 + n) } }
  add("destroy") { |_c| authors.create!(name: "Gone").destroy! }
  add("destroy with books") { |_c| authors.create!(name: "Gone2").tap { |author| author.books.create!(title: "t") }.destroy! && books.count }
  add("counter cache") { |_c| authors.find(2).tap { |author| author.books.create!(title: "counted") }.reload.books_count }
  add("touch") { |_c| authors.find(1).touch }
  add("increment!") { |_c| authors.find(1).increment!(:age).age }
  add("toggle by enum") { |_c| authors.find(1).glad! }
  add("update_column") { |_c| authors.find(3).update_column(:age, 9) }
  add("update_all") { |_c| books.where("id < 3").update_all("price = price + 1") }
  add("update_all with a join") { |_c| books.joins(:author).where(authors: {name: "Ada"}).update_all(title: "joined") }
  add("update_all with a limit") { |_c| books.order(:id).limit(2).update_all(price: 3) }
  add("delete_all") { |_c| books.where(title: "counted").delete_all }
  add("delete_by") { |_c| books.delete_by(id: 9999) }
  add("insert_all") { |_c| authors.insert_all([{name: "Ada"}, {name: "Fay"}]).class }
  add("insert_all!") { |_c| authors.insert_all!([{name: "Ada"}]) }
  add("upsert_all") { |_c| authors.upsert_all([{name: "Fay", age: 3}, {name: "Gus", age: 4}]).class && authors.where(name: %w[Fay Gus]).order(:name).pluck(:age) }
  add("insert and its id") { |_c| authors.create!(name: "Ida").id.class }
  add("dup") { |_c| authors.find(1).dup.tap { |author| author.name = "Twin" }.save! }
  add("reload") { |_c| authors.find(1).reload }
  add("lock!") { |_c| authors.transaction { authors.find(1).lock!.name } }
  add("with_lock") { |_c| authors.find(1).with_lock { 5 } }
  add("accents") { |_c| authors.create!(name: "Zoë 🎉").reload.name }
  add("binary in a record") { |_c| samples.create!(a_blob: "\x00'\\\xff".b).reload.a_blob }
  add("save without validation") { |_c| authors.new(name: "Neg", age: -1).save(validate: false) }
  add("becomes and attributes") { |_c| authors.new(name: "x").attributes }
  add("exists?") { |_c| [authors.exists?(1), authors.exists?(999)] }
  add("association count") { |_c| authors.find(1).books.count }
  add("association pluck") { |_c| authors.find(1).books.order(:id).pluck(:id) }
end
