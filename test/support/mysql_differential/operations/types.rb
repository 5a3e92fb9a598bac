# frozen_string_literal: true

NeverBlockTest::MySQLDifferential::Operations.area("types") do
  {
    tinyint: [0, 127, -129, "7"], smallint: [32_767, 40_000], mediumint: [8_388_607], int: [2_147_483_647, 2_147_483_648, "x"], bigint: [9_223_372_036_854_775_807],
    unsigned: [18_446_744_073_709_551_615, -1], boolean: [true, false, 1, "0"], decimal: ["1.5", BigDecimal("12345678901234.123456"), 0.1], float: [1.5, 1e10, "x"],
    double: [1.5, 1e300], bit: ["\x01\x02".b], char: ["abc", "abc   "], varchar: ["é漢字🎉", "x" * 91, ""], text: ["a\nb", "x" * 70_000], mediumtext: ["x" * 70_000],
    binary: ["\x00\xff".b, "abcd"], varbinary: ["\x00\xff\x27\x5c".b], blob: [(0..255).map(&:chr).join.b], date: [Date.new(2026, 1, 2), "2026-02-30", "0000-00-00"],
    time: ["01:02:03.456", "25:00:00"], datetime: [Time.utc(2026, 1, 2, 3, 4, 5, 678_901), "2026-01-02", "nonsense"], timestamp: [Time.utc(2026, 1, 2, 3, 4, 5), nil],
    year: [2026, 99], enum: ["a", "c"], set: ["a,b", "c"], json: [{"a" => [1, nil]}, "text", "{"]
  }.each do |type, values|
    each_of(values, type.to_s) do |_c, value|
      sample = samples.create!("a_#{type}": value)
      [sample.reload[:"a_#{type}"], samples.where(id: sample.id).pick(:"a_#{type}"), sample.column_for_attribute("a_#{type}").sql_type]
    end
  end

  add("columns") { |c| c.columns("samples").map { |column| [column.name, column.type, column.sql_type, column.null, column.default, column.limit, column.precision, column.scale] } }
  add("casts of a select") { |c| c.select_all("select * from samples where a_varchar is not null").to_a.first&.transform_values(&:class) }
  add("local time") do |c|
    before, ActiveRecord.default_timezone = ActiveRecord.default_timezone, :local
    c.select_value("select timestamp '2026-01-02 03:04:05'").to_s
  ensure
    ActiveRecord.default_timezone = before
  end
  add("an attribute of another type") { |_c| samples.new(a_unsigned: 2**64 - 1).a_unsigned }
end
