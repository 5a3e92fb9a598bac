# frozen_string_literal: true

module NeverBlockTest
  class Differential
    # Relations, calculations, the query cache, load_async.
    Operations.area("queries") do
      add("all") { authors.order(:id).to_a }
      add("find") { authors.find(2) }
      add("find of many") { authors.find([3, 1]).map(&:id) }
      add("find_by") { authors.find_by(name: "Ada")&.id }
      add("find_by again") { Array.new(3) { |n| authors.find_by(id: n + 1)&.name } }
      add("find_by of nil") { authors.find_by(age: nil)&.name }
      add("find_by_sql") { authors.find_by_sql(["SELECT * FROM authors WHERE id = ?", 1]) }
      add("count_by_sql") { authors.count_by_sql("SELECT count(*) FROM authors WHERE id < 3") }
      add("async_find_by_sql") { done_promise(authors.async_find_by_sql(["SELECT * FROM authors WHERE id = ?", 1])).value }
      add("first and last") { [authors.first.id, authors.last.id, authors.first(2).map(&:id), authors.order(:name).last(2).map(&:name), authors.second.id, authors.third_to_last.id] }
      add("take") { authors.where(id: 1).take(2).size }
      add("exists?") { [authors.exists?, authors.exists?(1), authors.exists?(name: "Nobody"), authors.where(age: nil).exists?, authors.none.exists?] }
      add("any? and so on") { [authors.any?, authors.none?, authors.one?, authors.many?, authors.all.empty?, authors.where(id: 1).one?] }
      add("size") { [authors.all.size, authors.all.load.size, authors.all.length] }
      add("where of all kinds") { [{id: [1, 2]}, {id: 1..2}, {id: (2..)}, {name: nil}, {name: ["Ada", nil]}, {id: []}, {tags: []}, {mood: :sad}, {details: {}}].map { |condition| authors.where(condition).order(:id).pluck(:id) } }
      add("where.not") { authors.where.not(name: "Ada").where.not(age: nil).order(:id).pluck(:id) }
      add("where.missing") { authors.where.missing(:books).order(:id).pluck(:id) }
      add("where.associated") { authors.where.associated(:books).distinct.order(:id).pluck(:id) }
      add("where of tuples") { seats.where(%i[row number] => [[1, 1], [1, 2]]).order(:number).pluck(:number) }
      add("or and and") { authors.where(id: 1).or(authors.where(name: "Bob")).and(authors.where.not(id: 5)).order(:id).pluck(:id) }
      add("invert_where") { authors.where(id: 1).invert_where.order(:id).limit(2).pluck(:id) }
      add("rewhere and unscope") { [authors.where(id: 1).rewhere(id: 2).pluck(:id), authors.where(id: 1).unscope(:where).count] }
      add("scopes") { authors.grown.order(:id).pluck(:id) }
      add("limit and offset") { authors.order(:id).limit(1).offset(1).pluck(:id) }
      add("order of all kinds") { [authors.order(age: :desc).pluck(:id).size, authors.order(Arel.sql("length(name)"), :id).pluck(:id), authors.reorder(:id).reverse_order.pluck(:id), authors.order(authors.arel_table[:age].asc.nulls_last, :id).pluck(:id), authors.in_order_of(:id, [3, 1]).pluck(:id)] }
      add("select") { authors.select(:id, "upper(name) AS loud").order(:id).map { |author| [author.id, author.loud] } }
      add("distinct") { books.distinct.order(:author_id).pluck(:author_id) }
      add("group") { books.group(:author_id).order(:author_id).count }
      add("group by two") { books.group(:author_id, :status).order(:author_id, :status).count }
      add("group by an association") { books.group(:author).count.transform_keys { |author| author&.name } }
      add("having") { books.group(:author_id).having("count(*) > ?", 3).order(:author_id).pluck(:author_id) }
      add("joins") { authors.joins(:books).where(books: {title: "Title 1"}).pluck(:name) }
      add("left_outer_joins") { authors.left_outer_joins(:books).where(books: {id: nil}).order(:id).pluck(:id) }
      add("includes") { authors.includes(:books).order(:id).map { |author| author.books.map(&:title).sort } }
      add("eager_load") { authors.eager_load(:books).order(:id, "books.id").limit(2).map { |author| author.books.size } }
      add("preload") { authors.preload(:books).order(:id).map { |author| author.books.size } }
      add("references") { authors.includes(:books).references(:books).where("books.price > 1").order("authors.id").map(&:id).uniq }
      add("an association") { authors.find(1).books.order(:id).pluck(:title) }
      add("an association's inverse") { books.find(1).author.name }
      add("build and save") { authors.find(3).books.create!(title: "Built").author_id }
      add("collections") { authors.find(3).then { |author| [author.book_ids, author.books.include?(books.first), author.books.find_by(title: "Built").destroy.title, author.books.reload.size] } }
      add("merge") { authors.joins(:books).merge(books.printed).distinct.order(:id).pluck(:id) }
      add("from") { authors.from(authors.where(id: 1..2), :authors).order(:id).pluck(:id) }
      add("sub-selects") { authors.where(id: books.where("price > 5").select(:author_id)).order(:id).pluck(:id) }
      add("with") { authors.with(cheap: books.where("price < 3")).joins("JOIN cheap ON cheap.author_id = authors.id").distinct.order(:id).pluck(:id) }
      add("with_recursive") { authors.with_recursive(numbers: [Arel.sql("SELECT 1 AS n"), Arel.sql("SELECT n + 1 FROM numbers WHERE n < 4")]).joins("JOIN numbers ON numbers.n = authors.id").order(:id).pluck(:id) }
      add("unions by Arel") { authors.from(Arel::Nodes::As.new(authors.where(id: 1).arel.union(authors.where(id: 2).arel), Arel.sql("authors"))).order(:id).pluck(:id) }
      add("windows") { books.select("id, row_number() OVER (PARTITION BY author_id ORDER BY id) AS place").order(:id).map { |book| [book.id, book.place] } }
      add("distinct on") { books.select("DISTINCT ON (author_id) author_id, id").order(:author_id, :id).map(&:id) }
      add("arrays") { authors.where("tags && ARRAY[?]::text[]", %w[a]).count }
      add("jsonb") { [authors.where("details @> ?", {x: 1}.to_json).count, authors.where("details ->> 'colour' = 'red'").count] }
      add("ranges") { rooms.where("during @> 3").order(:id).pluck(:number) }
      add("full text") { books.where("to_tsvector('english', title) @@ plainto_tsquery('english', ?)", "titles").count }
      add("pluck") { [authors.order(:id).pluck(:id, :name), authors.order(:id).pluck(Arel.sql("upper(name)")), books.order(:id).limit(1).pluck(:price, :published_on, :seen_at, :status), authors.none.pluck(:id), authors.joins(:books).order("books.id").limit(1).pluck("books.title", :name)] }
      add("pick and ids") { [authors.order(:id).pick(:name), authors.where(id: 0).pick(:name), authors.order(:id).ids, authors.joins(:books).distinct.order(:id).ids] }
      add("calculations") { [books.count, books.count(:price), books.distinct.count(:author_id), books.sum(:price), books.average(:price), books.minimum(:published_on), books.maximum(:seen_at), books.sum("price * 2"), books.none.sum(:price), books.average(:status), books.count("DISTINCT status")] }
      add("grouped calculations") { [books.group(:author_id).order(:author_id).sum(:price), books.group(:status).order(:status).average(:price), books.group("date_trunc('month', published_on)").count] }
      add("async calculations") { [books.async_count, books.async_sum(:price), books.async_maximum(:price), books.async_pluck(:id), books.order(:id).async_pick(:id), books.async_ids].map { |promise| value = done_promise(promise).value; value.is_a?(Array) ? value.sort : value } } # standard:disable Style/Semicolon
      add("load_async") { done(authors.where(id: [1, 2]).order(:id).load_async).map(&:name) }
      add("load_async with SQL that waits") { done(authors.where(id: 1).select("name, pg_sleep(0.01)::text").load_async).map(&:name) }
      add("load_async of an error") { done(authors.where("nonsense = 1").load_async).to_a }
      add("load_async in a transaction") { authors.transaction { authors.where(id: 1).load_async.map(&:name) } }
      add("async_count, waited for") { done_promise(books.async_count).value }
      add("load_async of what is cached") { authors.cache { [authors.where(id: 1).to_a, authors.where(id: 1).load_async.to_a].map(&:size) } }
      add("cache") { authors.cache { Array.new(3) { authors.find_by(id: 1).name } } }
      add("cache of all kinds") { |c| authors.cache { Array.new(2) { [authors.count, authors.pluck(:name).size, c.select_all("SELECT 1 AS n").to_a, c.select_value("SELECT 2"), authors.exists?(1)] } } }
      add("cache and a write") { authors.cache { [authors.find(1).age, authors.where(id: 1).update_all("age = age + 1"), authors.find(1).age] } }
      add("cache and a transaction") { authors.cache { authors.transaction { Array.new(2) { authors.count } } } }
      add("cache and a roll back") { authors.cache { [authors.count, authors.transaction { authors.create!(name: "never") && raise(ActiveRecord::Rollback) }, authors.count] } }
      add("cache and a lock") { authors.cache { Array.new(2) { authors.lock.find(1).name } } }
      add("uncached") { authors.cache { [authors.count, authors.uncached { authors.count }, authors.count] } }
      add("a cache that is cleared") { |c| authors.cache { [authors.count, c.clear_query_cache.class, authors.count] } }
      add("cache and an error") { authors.cache { Array.new(2) { failure { authors.where("nonsense = 1").to_a }.class } } }
      add("cached results can't be changed") { authors.cache { Array.new(2) { authors.pluck(:name).tap { |names| names[0] << "!" }.first } } }
      add("to_sql") { authors.where(name: "it's", age: 1..2).joins(:books).to_sql }
      add("relations that are the same") { [[authors.where(id: 1), authors.all.where(id: 1)].uniq.size, authors.where(id: 1).cache_key.size.positive?, authors.order(:id).cache_version] }
      add("scoping") { authors.where(id: 1).scoping { [authors.count, authors.new.id] } }
      add("readonly and extending") { [authors.readonly.first.readonly?, authors.extending(Module.new { def shout = "!" }).shout] }
      add("regroup and excluding") { [books.group(:status).regroup(:author_id).count.size, authors.excluding(authors.find(1)).order(:id).pluck(:id)] }
      add("find_or_initialize_by") { authors.find_or_initialize_by(name: "Nobody").new_record? }
      add("the statement cache") { Array.new(5) { |n| [authors.find(n % 3 + 1).name, authors.find(n % 3 + 1).books.size] } }
      add("result_set kinds") { |c| c.select_all("SELECT 1 AS a, 'x' AS b").then { |r| [r.to_a, r.cast_values, r.columns, r.rows, r.length, r.includes_column?("a"), r.first, r.column_types.transform_values(&:class)] } }
      add("many at once") { |c| Array.new(100) { |n| c.select_value("SELECT #{n}") } }
    end
  end
end
