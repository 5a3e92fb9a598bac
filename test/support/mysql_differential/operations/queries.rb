# frozen_string_literal: true

NeverBlockTest::MySQLDifferential::Operations.area("queries") do
  {
    "where" => -> { books.where(author_id: 1) }, "where in" => -> { books.where(id: [1, 2, 3]) }, "where range" => -> { books.where(id: 2..4) },
    "where nil" => -> { authors.where(age: nil) }, "where not" => -> { books.where.not(author_id: 1) }, "or" => -> { books.where(id: 1).or(books.where(id: 2)) },
    "order" => -> { books.order(price: :desc, id: :asc) }, "reverse_order" => -> { books.order(:id).reverse_order }, "limit" => -> { books.order(:id).limit(2).offset(3) },
    "joins" => -> { books.joins(:author).order(:id) }, "left joins" => -> { authors.left_joins(:books).order(:id).distinct }, "includes" => -> { authors.includes(:books).order(:id) },
    "eager_load" => -> { authors.eager_load(:books).order(:id, "books.id") }, "preload" => -> { books.preload(:author).order(:id) }, "distinct" => -> { books.select(:author_id).distinct.order(:author_id) },
    "group" => -> { books.group(:author_id).order(:author_id).select("author_id, count(*) as n") }, "having" => -> { books.group(:author_id).having("count(*) > 100").select(:author_id) },
    "from" => -> { books.from("(select * from books where id < 4) books").order(:id) }, "none" => -> { books.none }, "unscope" => -> { books.where(id: 1).unscope(:where).order(:id) },
    "sql parameters" => -> { books.where("title = ? and price < :p", "x", p: 1) }, "named parameters" => -> { books.where("title like :t", t: "Title 1%").order(:id) },
    "a quote in a value" => -> { books.where(title: "it's \\ 'x'") }, "annotate" => -> { books.annotate("it's").where(id: 1) }, "optimizer hints" => -> { books.optimizer_hints("MAX_EXECUTION_TIME(1000)").where(id: 1) },
    "with" => -> { books.with(few: books.where("id < 4")).from("few as books").order(:id) }, "lock" => -> { books.lock.where(id: 1) }, "lock in share mode" => -> { books.lock("LOCK IN SHARE MODE").where(id: 1) },
    "scopes" => -> { authors.grown.order(:id) }, "enum" => -> { authors.sad.order(:id) }, "merge" => -> { books.joins(:author).merge(authors.where(name: "Ada")).order(:id) },
    "in_order_of" => -> { authors.in_order_of(:name, %w[Bob Ada]) }, "subquery" => -> { books.where(author_id: authors.where(name: "Ada").select(:id)).order(:id) },
    "excluding" => -> { authors.excluding(authors.find(1)).order(:id) }, "missing" => -> { authors.where.missing(:books).order(:id) }, "associated" => -> { authors.where.associated(:books).distinct.order(:id) },
    "a date" => -> { books.where(published_on: Date.new(2020, 1, 3)) }, "a time" => -> { books.where("seen_at > ?", Time.utc(2026, 1, 2, 3, 4, 9)).order(:id) }, "case" => -> { books.order(Arel.sql("case when id = 3 then 0 else 1 end"), :id).limit(2) },
    "collate" => -> { authors.where("name = 'ADA' collate utf8mb4_general_ci") }, "regexp" => -> { authors.where("name regexp '^[AB]'").order(:id) }, "match nothing" => -> { books.where("false") }
  }.each { |name, query| add(name) { |_c| instance_exec(&query) } }

  {
    "count" => ->(all) { all.count }, "sum" => ->(all) { all.sum(:price) }, "average" => ->(all) { all.average(:price) }, "minimum" => ->(all) { all.minimum(:published_on) },
    "maximum" => ->(all) { all.maximum(:seen_at) }, "grouped count" => ->(all) { all.group(:author_id).count }, "grouped sum" => ->(all) { all.group(:author_id).sum(:price) },
    "count distinct" => ->(all) { all.distinct.count(:author_id) }, "pluck" => ->(all) { all.order(:id).pluck(:id, :title) }, "pick" => ->(all) { all.order(:id).pick(:title) },
    "ids" => ->(all) { all.order(:id).ids }, "first" => ->(all) { all.first }, "last" => ->(all) { all.last }, "take" => ->(all) { all.order(:id).take(2) },
    "exists?" => ->(all) { all.exists?(title: "Title 1") }, "any?" => ->(all) { all.any? }, "many?" => ->(all) { all.many? }, "find_each" => ->(all) { all.find_each(batch_size: 3).map(&:id) },
    "in_batches" => ->(all) { all.in_batches(of: 5).map(&:count) }, "find_in_batches" => ->(all) { all.find_in_batches(batch_size: 4).map(&:size) }, "sole" => ->(all) { all.where(id: 1).sole },
    "sole of several" => ->(all) { all.sole }, "explain" => ->(all) { all.where(id: 1).explain.inspect.lines.size }, "find_by_sql" => ->(all) { all.find_by_sql("select * from books where id = 1") },
    "calculate on arel" => ->(all) { all.pluck(Arel.sql("price * 2")) }, "to_sql" => ->(all) { all.where(id: 1).to_sql }, "cache" => ->(all) { all.cache { 2.times.map { all.where(id: 1).to_a.size } } }
  }.each { |name, query| add(name) { |_c| query.call(books) } }
end
