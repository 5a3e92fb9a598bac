# frozen_string_literal: true

require_relative "extensions"
require_relative "functions"
require_relative "revision"

module NeverBlock
  class Postgres
    # The query of the catalogue for {Reach}: which views, tables, types, operators and functions of a database reach a
    # function that may leave session state, so that a statement may call it without naming it?
    #
    #   pg.exec(Dependencies.question(["shop.price"]))    # rows with {COLUMNS}, in the order of reach
    #   pg.exec(Dependencies.question([], since: "742", seeds: […]))    # what has come to reach one since then
    #
    # It begins with the functions that are not known to be harmless, and goes from each thing to those that use it.
    # pg_depend has what depends on a user's function. It does not have what depends on a built-in one, so expressions
    # are searched for the OIDs of built-in functions that leave session state. Things that only writes reach (a
    # trigger, a default) are marked.
    #
    # Names are without a schema, so that the result holds for any search_path, role and session defaults.
    # @api private
    module Dependencies
      # Lowest OID of things that are not built in.
      FIRST_USER_OID = 16_384

      # `class` and `id` are as in pg_depend. `parent_class` and `parent` are the thing by which it was reached.
      # `writes`: only writes reach it. `name` is without a schema. `kind` is {Reach}'s or null. `words` describe it.
      COLUMNS = %w[class id parent_class parent writes kind name words].freeze

      # Views of session state, which a user's view may use.
      SESSION_VIEWS = '^pg_(settings|prepared_statements|cursors|backend_memory_contexts|stat_xact_\w+)$'
      # Functions that run SQL from a text, although they are not declared volatile.
      BY_NAME = "^(table|schema|database)_to_xml"

      # Classes of dependents in pg_depend that run a thing, by the thing's class.
      expressions = %w[pg_rewrite pg_policy pg_attrdef pg_constraint pg_trigger]
      USED_BY = {
        "pg_proc" => [
          *expressions, "pg_class", "pg_type", "pg_operator", "pg_cast", "pg_amproc", "pg_foreign_data_wrapper",
          "pg_am",
          "pg_event_trigger"
        ],
        "pg_operator" => [*expressions, "pg_class", "pg_amop"], "pg_type" => [*expressions, "pg_class", "pg_type"],
        "pg_class" => %w[pg_rewrite pg_policy], "pg_opclass" => %w[pg_class], "pg_am" => %w[pg_class],
        "pg_foreign_data_wrapper" => %w[pg_foreign_server], "pg_foreign_server" => %w[pg_class]
      }.freeze

      cascades = "(confdeltype in ('c', 'n', 'd') or confupdtype in ('c', 'n', 'd'))"
      # The things that reach a thing `r` otherwise: class of `r`, class of the other, its OID and whether only writes
      # reach it, the source.
      BELONGS = [
        # Writes run an INSERT's rule, and REFRESH a materialized view's query.
        ["pg_rewrite", "pg_class", "ev_class, r.writes or ev_type <> '1' or relkind = 'm'",
          "pg_rewrite w join pg_catalog.pg_class c on c.oid = ev_class where w.oid = r.id"],
        ["pg_policy", "pg_class", "polrelid, false",
          "pg_policy p join pg_catalog.pg_class c on c.oid = polrelid where p.oid = r.id and relrowsecurity"],
        # Reads run a virtual column's expression.
        ["pg_attrdef", "pg_class", "adrelid, attgenerated <> 'v'",
          "pg_attrdef d join pg_catalog.pg_attribute a on attrelid = adrelid and attnum = adnum where d.oid = r.id"],
        ["pg_constraint", "pg_class", "conrelid, true", "pg_constraint where oid = r.id and conrelid <> 0"],
        ["pg_constraint", "pg_type", "contypid, false", "pg_constraint where oid = r.id and contypid <> 0"],
        ["pg_trigger", "pg_class", "tgrelid, true", "pg_trigger where oid = r.id"],
        ["pg_class", "pg_class", "indrelid, r.writes", "pg_index where indexrelid = r.id"],
        # A write to a partitioned table writes to its partitions.
        ["pg_class", "pg_class", "inhparent, r.writes", "pg_inherits where inhrelid = r.id"],
        ["pg_class", "pg_class", "confrelid, true",
          "pg_constraint where conrelid = r.id and contype = 'f' and (not r.writes or #{cascades})"],
        # Foreign keys read the other table.
        ["pg_class", "pg_class", "conrelid, true",
          "pg_constraint where confrelid = r.id and contype = 'f' and not r.writes"],
        ["pg_class", "pg_type", "reltype, false", "pg_class where oid = r.id and reltype <> 0 and not r.writes"],
        ["pg_operator", "pg_type", "type, false",
          "pg_operator o, unnest(array[oprleft, oprright]) type where o.oid = r.id and type >= #{FIRST_USER_OID}"],
        ["pg_cast", "pg_type", "type, false", "pg_cast c, unnest(array[castsource, casttarget]) type where c.oid = " \
          "r.id and type >= #{FIRST_USER_OID}"],
        ["pg_amproc", "pg_opclass", "o.oid, false",
          "pg_amproc p join pg_catalog.pg_opclass o on opcfamily = amprocfamily where p.oid = r.id"],
        ["pg_amop", "pg_opclass", "o.oid, false",
          "pg_amop p join pg_catalog.pg_opclass o on opcfamily = amopfamily where p.oid = r.id"],
        ["pg_opclass", "pg_type", "opcintype, false", "pg_opclass where oid = r.id and opcintype >= #{FIRST_USER_OID}"]
      ].freeze

      # Catalogues with expressions, and the columns of these.
      TREES = {
        "pg_rewrite" => "ev_action::text, ev_qual::text", "pg_policy" => "polqual::text, polwithcheck::text",
        "pg_attrdef" => "adbin::text",
        "pg_constraint" => "conbin::text", "pg_trigger" => "tgqual::text", "pg_type" => "typdefaultbin::text"
      }.freeze

      # Kind and name of a thing, by its class.
      NAMES = {
        "pg_class" => ["case when writes then 'written' else 'relation' end",
          "relname from pg_catalog.pg_class where oid = id and relkind in ('r', 'v', 'm', 'f', 'p', 'c')"],
        "pg_type" => ["'type'", "typname from pg_catalog.pg_type where oid = id"],
        # An operand of a user's type is found by the type's name, or by its table's.
        "pg_operator" => ["'operator'", "oprname from pg_catalog.pg_operator " \
          "where oid = id and oprleft < #{FIRST_USER_OID} and oprright < #{FIRST_USER_OID}"],
        "pg_cast" => ["'everything'", "'' from pg_catalog.pg_cast " \
          "where oid = id and castsource < #{FIRST_USER_OID} and casttarget < #{FIRST_USER_OID}"],
        "pg_opclass" => ["'everything'",
          "'' from pg_catalog.pg_opclass where oid = id and opcintype < #{FIRST_USER_OID} and opcdefault"],
        "pg_event_trigger" => ["'definition'", "evtname from pg_catalog.pg_event_trigger where oid = id"]
      }.freeze
      private_constant(*constants(false) - %i[COLUMNS FIRST_USER_OID])

      class << self
        # Its last row has the kind "reached": `words` are all things that were reached, as "class:id:writes". Other
        # rows are for one thing of each kind and name, and for those by which it was reached.
        # @param shareable [Array<String>] functions known to be harmless: "price", or "shop\0price" with a schema
        # @param since [String, nil] the horizon of a {Revision}: only newer functions and expressions begin it
        # @param seeds [Array<Array<String>>] things that are known to reach one, and begin it too: class, id, writes
        # @return [String]
        def question(shareable, since: nil, seeds: [])
          <<~SQL.gsub(/\s*\n\s*/, " ").strip
            with recursive
            uses(class, dependent) as (values #{uses}),
            built_in(class, id) as (#{built_in}),
            known(id) as (#{known(shareable)}),
            trees(class, id, tree) as (#{trees(newer(since))}),
            called(class, id, what, callee) as (#{called}),
            reached(class, id, writes, parent_class, parent) as (
              select #{klass("pg_proc")}, oid, false, null::oid, null::oid from pg_catalog.pg_proc
                where oid >= #{FIRST_USER_OID} #{newer(since)} and oid not in (select id from known)
              union select what, callee, false, null, null from called
              #{seeds.map { |seed| "union select #{seed[0].to_i}, #{seed[1].to_i}, #{seed[2] == "t"}, null, null" }
                .join(" ")}
              union select s.class, s.id, s.writes, r.class, r.id
                from reached r cross join lateral (#{successors}) s(class, id, writes)
            ),
            numbered(number, class, id, parent_class, parent, writes, kind, name) as materialized (
              select row_number() over (), class, id, parent_class, parent, writes, #{what}, #{bare_name} from reached),
            kept as (
              select * from numbered where number in
                (select min(number) from numbered where kind is not null and name is not null group by kind, name)
              union select n.* from kept k join numbered n on n.class = k.parent_class and n.id = k.parent),
            told as (
              select number, class, id, parent_class, parent, writes, kind, name::text,
                pg_catalog.pg_describe_object(class, id, 0) from kept
              union all select null, null, null, null, null, null, 'reached', null,
                string_agg(distinct pg_catalog.concat_ws(':', class, id, writes), ' ') from numbered)
            select class, id, parent_class, parent, writes, kind, name, pg_describe_object from told order by number
          SQL
        end

        # @param since [String] the horizon of a {Revision}
        # @return [String] whether a {question} since then begins with newer functions or expressions
        def beginning(since)
          <<~SQL.gsub(/\s*\n\s*/, " ").strip
            with built_in(class, id) as (#{built_in}), trees(class, id, tree) as (#{trees(newer(since))}),
              called(class, id, what, callee) as (#{called})
            select exists (select from pg_catalog.pg_proc where oid >= #{FIRST_USER_OID} #{newer(since)}) or
              exists (select from called)
          SQL
        end

        private

        def klass(name) = "'pg_catalog.#{name}'::pg_catalog.regclass::oid"

        def uses = USED_BY.flat_map { |of, by| by.map { |one| "(#{klass(of)}, #{klass(one)})" } }.join(", ")

        def list(names) = "array[#{names.map { |name| "'#{name.gsub("'", "''")}'" }.join(", ")}]::text[]"

        def newer(since) = ("and #{Revision.since(since)}" if since)

        # Functions named shareable; those of trusted extensions; built-in ones under another name, such as a range
        # type's constructors. (All aggregates have the same source.)
        def known(shareable)
          with_schema, bare = shareable.partition { |name| name.include?("\0") }
          <<~SQL
            select p.oid from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = pronamespace
              where proname = any (#{list(bare)})
              or nspname || '.' || proname = any (#{list(with_schema.map { |name| name.tr("\0", ".") })})
            union all
            select p.oid from pg_catalog.pg_depend d join pg_catalog.pg_extension e on e.oid = refobjid
              join pg_catalog.pg_proc p on p.oid = objid
              where classid = #{klass("pg_proc")} and refclassid = #{klass("pg_extension")} and deptype = 'e'
              and extname = any (#{list(Extensions::LISTED.keys)})
              and extname || '.' || proname <> all (#{list(Extensions::KEEPING)})
            union all
            select oid from pg_catalog.pg_proc p where oid >= #{FIRST_USER_OID} and prokind = 'f'
              and prolang = (select oid from pg_catalog.pg_language where lanname = 'internal')
              and exists (select from pg_catalog.pg_proc b
                where b.oid < #{FIRST_USER_OID} and b.prolang = p.prolang and b.prosrc = p.prosrc)
              and not exists (select from built_in i join pg_catalog.pg_proc b on b.oid = i.id
                where i.class = #{klass("pg_proc")} and b.prosrc = p.prosrc)
          SQL
        end

        def built_in
          listed = [Functions::VOLATILE, Functions::WRITING, Functions::TRANSACTIONAL, Functions::LOOKING]
            .flat_map(&:keys) + Functions::LATER_VOLATILE
          <<~SQL
            select #{klass("pg_proc")}, oid from pg_catalog.pg_proc
              where oid < #{FIRST_USER_OID}
              and (provolatile = 'v' and proname <> all (#{list(listed)}) or proname ~ '#{BY_NAME}')
            union all select #{klass("pg_class")}, oid from pg_catalog.pg_class
              where oid < #{FIRST_USER_OID} and relname ~ '#{SESSION_VIEWS}'
          SQL
        end

        def trees(newer)
          TREES.map do |table, columns|
            tree = "pg_catalog.concat(#{columns})"
            "select #{klass(table)}, oid, #{tree} from pg_catalog.#{table} where oid >= #{FIRST_USER_OID} #{newer} " \
            "and #{tree} <> ''"
          end.join(" union all ")
        end

        # OIDs of built-in things have five digits at most.
        def called
          <<~'SQL'.gsub("CLASS") { "case m[1] when 'rel' then #{klass("pg_class")} else #{klass("pg_proc")} end" }
            select distinct t.class, t.id, b.class, b.id from trees t,
              pg_catalog.regexp_matches(tree, ':(func|aggfno|winfno|rel)(?:oid|id) (\d{1,5})(?!\d)', 'g') m, built_in b
              where b.id = m[2]::oid and b.class = CLASS
          SQL
        end

        def successors
          [
            "select c.class, c.id, false from called c where what = r.class and callee = r.id",
            depending,
            *BELONGS.map do |from, to, columns, source|
              "select #{klass(to)}, #{columns} from pg_catalog.#{source} and r.class = #{klass(from)}"
            end
          ].join(" union all ")
        end

        # Whether only writes reach the dependent: what only writes reach stays so; writes run an index' expression.
        def depending
          <<~SQL
            select classid, objid,
              r.writes or classid = #{klass("pg_class")} and r.class in (#{klass("pg_proc")}, #{klass("pg_operator")})
              from pg_catalog.pg_depend join uses u on u.dependent = classid
              where refclassid = r.class and refobjid = r.id and u.class = r.class and objid >= #{FIRST_USER_OID}
              and not (r.writes and r.class = #{klass("pg_class")} and classid <> #{klass("pg_rewrite")})
          SQL
        end

        def what
          others = NAMES.map { |table, (kind, _)| "when #{klass(table)} then #{kind}" }
          "case class when #{klass("pg_proc")} then #{callable} #{others.join(" ")} end"
        end

        # A statement may call a user's function by the name of a built-in one, or as if it were a column of a row or
        # value. Calls by other names are found in the text.
        def callable
          <<~SQL
            (select case
              when proname in (select proname from pg_catalog.pg_proc where oid < #{FIRST_USER_OID}) then 'function'
              when pronargs > 0 and pronargs - pronargdefaults <= 1 then
                (select case when typtype in ('c', 'p', 'd') then 'field' else 'scalar' end
                  from pg_catalog.pg_type where oid = proargtypes[0] and typname <> 'internal') end
              from pg_catalog.pg_proc where oid = id and oid >= #{FIRST_USER_OID} and prorettype not in
                ('pg_catalog.trigger'::pg_catalog.regtype, 'pg_catalog.event_trigger'::pg_catalog.regtype))
          SQL
        end

        def bare_name
          others = NAMES.map { |table, (_, source)| "when #{klass(table)} then (select #{source})" }
          "case class when #{klass("pg_proc")} then (select proname from pg_catalog.pg_proc where oid = id) " \
            "#{others.join(" ")} end"
        end
      end
    end
  end
end
