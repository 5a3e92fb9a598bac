# frozen_string_literal: true

module NeverBlockTest
  class Differential
    # Values of every kind: as PostgreSQL's text, and through columns and models.
    Operations.area("types") do
      texts = {
        "boolean" => %w[t f], "int2" => %w[0 -32768 32767], "int4" => %w[0 -2147483648 2147483647], "int8" => %w[0 -9223372036854775808 9223372036854775807],
        "float4" => %w[0 1.5 -1e30 NaN Infinity -Infinity], "float8" => %w[0 0.1 1e300 -1e-300 NaN Infinity -Infinity], "numeric" => %w[0 1.50 -99999999999999999999.000001 NaN],
        "numeric(10,2)" => %w[1.005 -1], "numeric(5)" => %w[12345], "text" => ["", "it's", "Ünï \\ \"", "a\nb\tc", "日本"], "varchar(3)" => %w[abc abcdef], "char(3)" => %w[a abc], "name" => %w[n], '"char"' => %w[c],
        "bytea" => ["", "\\x00ff", "abc\\\\000"], "date" => %w[2026-02-28 0001-01-01 9999-12-31 infinity -infinity] + ["0044-03-15 BC"],
        "timestamp" => ["2026-02-28 01:02:03.456789", "0001-01-01 00:00:00", "infinity", "-infinity", "0044-03-15 01:00:00 BC"],
        "timestamptz" => ["2026-02-28 01:02:03.4+09", "2026-02-28 01:02:03 America/New_York", "infinity", "-infinity"], "time" => %w[01:02:03.5 24:00:00], "timetz" => %w[01:02:03+02], "timestamp(0)" => ["2026-02-28 01:02:03.6"],
        "interval" => ["1 year 2 mons 3 days 04:05:06.7", "-1 day", "00:00:00", "1 hour -1 second", "100 years"], "uuid" => %w[a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11 {A0EEBC999C0B4EF8BB6D6BB9BD380A11}],
        "inet" => %w[192.168.0.1 10.0.0.0/8 ::1 2001:db8::/32], "cidr" => %w[10.0.0.0/8 ::/0], "macaddr" => %w[08:00:2b:01:02:03], "macaddr8" => %w[08:00:2b:01:02:03:04:05],
        "json" => ["null", "1", '"x"', '{"a": [1, {"b": null}]}', "[]"], "jsonb" => ["null", "1.50", '"\u00fc"', '{"b":1,"a":[true,false,null]}', "{}"], "jsonpath" => ["$.a[*]"], "xml" => ["<a>b</a>"],
        "money" => ["12.34", "-1,234.56"], "bit(3)" => %w[101], "varbit" => %w[1 10101], "point" => ["(1,2.5)"], "line" => ["{1,2,3}"], "lseg" => ["[(1,2),(3,4)]"], "box" => ["(3,4),(1,2)"], "path" => ["[(1,2),(3,4)]"],
        "polygon" => ["((1,2),(3,4),(5,6))"], "circle" => ["<(1,2),3>"], "tsvector" => ["'cat':1A 'dog':2"], "tsquery" => ["'cat' & 'dog'"], "oid" => %w[0 4294967295], "regclass" => %w[pg_class], "regtype" => %w[integer],
        "pg_lsn" => %w[16/B374D848], "xid8" => %w[5], "hstore" => ['a=>1, b=>NULL, "c d"=>"e\"f"'], "citext" => %w[CiText], "ltree" => %w[a.b.c], "mood" => %w[glad], "pair" => ["(1,\"a,b\")", "(,)"], "percent" => %w[12.5],
        "int4range" => ["[1,5]", "(,)", "empty", "[3,)"], "int8range" => ["[1,9223372036854775807)"], "numrange" => ["[1.5,2.5]", "(1.5,)"], "daterange" => ["[2026-01-01,2026-02-01)", "[2026-01-01,infinity)"], "tsrange" => ['["2026-01-01 00:00:00","2026-01-02 00:00:00")', "empty"],
        "tstzrange" => ['["2026-01-01 00:00:00+09","2026-01-02 00:00:00+09")', "(,)"], "int4multirange" => ["{[1,3),[5,7)}", "{}"],
        "int4[]" => ["{1,NULL,3}", "{}", "{{1,2},{3,4}}", "[0:1]={5,6}"], "text[]" => ['{a,"b c","d\"e",NULL,"NULL",""}', "{}"], "bool[]" => ["{t,f,NULL}"], "float8[]" => ["{1.5,NaN,Infinity}"], "numeric[]" => ["{1.50,NULL}"],
        "date[]" => ["{2026-01-01,infinity}"], "timestamp[]" => ['{"2026-01-01 01:02:03",NULL}'], "timestamptz[]" => ['{"2026-01-01 01:02:03+09"}'], "uuid[]" => ["{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}"], "jsonb[]" => ['{"{\"a\": 1}"}'],
        "bytea[]" => ['{"\\\\x00ff"}'], "inet[]" => ["{10.0.0.1,::1}"], "mood[]" => ["{sad,glad}"], "pair[]" => ['{"(1,a)","(2,b)"}'], "interval[]" => ['{"1 day","2 hours"}'], "hstore[]" => ['{"\"a\"=>\"1\""}'], "money[]" => ["{$1.00,$2.00}"], "bit varying[]" => ["{101,1}"]
      }
      texts.each do |type, values|
        add("text of #{type}") { |c| c.select_all("SELECT #{values.each_with_index.map { |value, n| "#{c.quote(value)}::#{type} AS v#{n}" }.join(", ")}") }
      end
      add("nulls of all") { |c| c.select_all("SELECT #{texts.keys.each_with_index.map { |type, n| "NULL::#{type} AS v#{n}" }.join(", ")}") }

      {"int4" => "x", "int2" => "40000", "int8" => "9223372036854775808", "numeric(3,1)" => "1000", "float8" => "1e999", "boolean" => "maybe", "date" => "2026-02-30", "timestamptz" => "soon", "time" => "25:00", "interval" => "1 blue moon",
       "uuid" => "a0eebc99", "inet" => "300.1.1.1", "cidr" => "10.0.0.1/8", "macaddr" => "08", "json" => "{", "jsonb" => "[1,", "xml" => "<a>", "money" => "much", "bit(3)" => "10", "point" => "(1)", "int4range" => "[5,1]", "int4[]" => "{1,",
       "mood" => "angry", "pair" => "(1)", "percent" => "101", "hstore" => "a=>", "ltree" => "a..b", "bytea" => "\\xf", "tsquery" => "a b", "regclass" => "nowhere"}.each do |type, text|
        add("what is no #{type}") { |c| c.select_value("SELECT #{c.quote(text)}::#{type}") }
      end

      {a_boolean: [true, false, nil, "t", "off", 1], smallint: [0, -32_768, 32_767, "12", 32_768], a_integer: [5, "6", 7.9, true, 2**31], a_bigint: [2**62, -2**63, 2**63], a_float: [1.5, "2.5", Float::NAN, Float::INFINITY, -Float::INFINITY],
       a_decimal: [1.5r, BigDecimal("123456789012345678901234567890.123"), "0.1", 10**30], a_string: ["", "it's", "Ünï", :sym, 12, "a" * 1000], a_text: ["a\nb", nil], a_date: [Date.new(2026, 2, 28), "2026-02-28", Float::INFINITY, -Float::INFINITY, "no date"],
       a_time: [Time.utc(2000, 1, 1, 12, 34, 56), "23:59"], a_datetime: [Time.utc(2026, 1, 2, 3, 4, 5.678901r), "2026-01-02 03:04:05 +0900", Float::INFINITY, Date.new(2026, 1, 1)], a_timestamptz: [Time.new(2026, 1, 2, 3, 4, 5, "+09:00"), Float::INFINITY],
       a_binary: ["\0\xff".b, "", "text"], a_json: [{"a" => [1, nil]}, [1, 2], "text", 5, nil], a_jsonb: [{"b" => {"c" => 1.5}}, [], "text", true, "{}"], a_uuid: ["A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "no uuid"], a_inet: ["192.168.0.1/24", IPAddr.new("::1"), "no address"],
       a_cidr: ["10.0.0.0/8", IPAddr.new("10.0.0.0/8")], a_macaddr: ["08-00-2b-01-02-03"], a_interval: [ActiveSupport::Duration.parse("P1Y2M3DT4H5M6.5S"), "P1D", "2 hours", 90], a_money: ["$12.34", 12.5, "(1.50)"], a_xml: ["<a>b</a>"], a_point: [[1, 2.5], "(3,4)"],
       a_line: ["{1,2,3}"], a_lseg: ["[(1,2),(3,4)]"], a_box: ["(3,4),(1,2)"], a_path: ["((1,2),(3,4))"], a_polygon: ["((1,2),(3,4),(5,6))"], a_circle: ["<(1,2),3>"], a_bit: %w[1 0], a_bit_varying: ["10101", "0xF"], a_hstore: [{"a" => "1", "b" => nil, "c d" => "e\"f"}, {}],
       a_citext: ["CiText"], a_ltree: ["a.b"], a_tsvector: ["'cat':1"], a_oid: [5, 4_294_967_295], a_int4range: [1..5, 1...5, (1..), (..5), nil], a_int8range: [1...2**40], a_numrange: [1.5r..2.5r], a_tsrange: [Time.utc(2026)...Time.utc(2027)],
       a_tstzrange: [Time.utc(2026)..Time.utc(2027)], a_daterange: [Date.new(2026, 1, 1)..Date.new(2026, 2, 1)], many_integer: [[1, nil, 3], [], [[1, 2], [3, 4]], %w[1 x]], many_bigint: [[2**40]], many_decimal: [[1.5r, nil]], many_string: [["a", "b c", "d\"e", nil, "NULL", "", "{}", "\\"]],
       many_text: [["a,b"], []], many_date: [[Date.new(2026, 1, 1), nil]], many_datetime: [[Time.utc(2026, 1, 2, 3, 4, 5)]], many_boolean: [[true, false, nil]], many_uuid: [["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]], many_inet: [["10.0.0.1"]],
       many_jsonb: [[{"a" => 1}, nil]], many_float: [[1.5, Float::INFINITY]], a_mood: %w[glad angry], a_pair: ["(1,x)"], a_percent: [12.345, 101]}.each do |column, values|
        add("attribute #{column}") do
          sample = nil
          found = values.map do |value|
            failed = failure { sample = samples.create!(column => value) }
            (failed == :none) ? [sample.public_send(column), sample.reload.public_send(column), failure { samples.where(:id => sample.id, column => sample.public_send(column)).pluck(column) }] : failed
          end
          [found, sample&.update!(column => nil)]
        end
      end
      add("a row of defaults") { samples.create!.reload.attributes }
      add("changed in place") { samples.create!(a_jsonb: {"a" => 1}, many_string: %w[a], a_hstore: {"a" => "1"}).then { |sample| sample.a_jsonb["b"] = 2; sample.many_string << "b"; sample.a_hstore["c"] = "d"; [sample.changed, sample.save!, sample.reload.attributes] } } # standard:disable Style/Semicolon
      add("type_cast of binds") { samples.where(a_date: Date.new(2026, 1, 1)..).where(a_string: "x").where(a_decimal: 1.5r).where(a_boolean: true).to_sql }
      add("column types") { samples.columns.to_h { |column| [column.name, [column.type, column.sql_type, column.default, column.null, samples.type_for_attribute(column.name).class]] } }
      add("a type that is new") { |c| c.execute("CREATE TYPE late AS ENUM ('x')") && [c.select_value("SELECT 'x'::late"), c.reload_type_map && :reloaded, c.select_value("SELECT 'x'::late")] }
      add("a composite that is new") { |c| c.execute("CREATE TYPE late_pair AS (a int)") && c.select_all("SELECT ROW(1)::late_pair AS p") }
      add("an array of a type that is new") { |c| c.select_all("SELECT ARRAY['x']::late[] AS many") }
      add("a range that is new") { |c| c.execute("CREATE TYPE late_range AS RANGE (subtype = float8)") && c.select_all("SELECT '[1.5,2.5]'::late_range AS r") }
      add("in local time") { |c| in_zone(:local) { [c.select_value("SELECT '2026-01-02 03:04:05'::timestamp"), c.select_value("SELECT '2026-01-02 03:04:05+00'::timestamptz"), samples.create!(a_datetime: Time.utc(2026, 1, 2, 3)).reload.a_datetime] } }
      add("in UTC again") { |c| [c.select_value("SHOW timezone"), c.select_value("SELECT '2026-01-02 03:04:05+00'::timestamptz")] }
      add("time zone aware attributes") { Time.use_zone("Asia/Tokyo") { samples.create!(a_datetime: Time.utc(2026, 1, 2, 3)).reload.a_datetime.iso8601 } }
    end
  end
end
