# frozen_string_literal: true

require "bigdecimal"

module NeverBlockTest
  class Differential
    # Turns a value into plain data that two runs can compare: its class, its content, a text's encoding. Leaves out
    # what differs between runs: the present time, addresses of objects, IDs of processes and transactions, and OIDs
    # from 16384 on, where those of user objects begin.
    #
    #   Shape.of(PG::Result)      # => {fields: [...], types: [...], values: [...], status: "SELECT 1"}
    module Shape
      PRESENT = 3_600 # seconds around now
      DEEPEST = 7
      OWN = 16_384
      # Objects that are named only, since each belongs to its run.
      NAMED = [ActiveRecord::ConnectionAdapters::AbstractAdapter, ActiveRecord::ConnectionAdapters::ConnectionPool, Module, Proc, Monitor, IO, PG::Connection].freeze

      TEXT = {
        /0x\h{8,}/ => "0x…", /\b(process|PID|pid) \d+/i => '\1 …', /attrelid = \d+/ => "attrelid = …", /\btransaction \d+/ => "transaction …", /20\d\d-\d\d-\d\d [\d:]+(?:\.\d+)?(?='?[,)])/ => "now", /tuple \(\d+,\d+\)/ => "tuple …",
        /\b(relation|database) \d{5,}/ => '\1 …', /OID \d{5,}/ => "OID …", /(?<=lo_get\(|lo_unlink\()\d+/ => "…", /neverblock_postgresql/ => "postgresql",
        /NeverBlockPostgreSQLAdapter/ => "PostgreSQLAdapter"
      }.freeze
      ANY = Regexp.union(*TEXT.keys, /pg_type/, /TRIGGER ALL/)
      private_constant :PRESENT, :DEEPEST, :OWN, :NAMED, :TEXT, :ANY

      class << self
        # @return [Object] comparable by ==
        def of(value, depth = 0)
          case value
          when nil, true, false, Integer, Symbol then value
          when String then text(value)
          when Float, Rational, Complex, BigDecimal then "#{value.class} #{value.inspect}"
          when Time, DateTime, ActiveSupport::TimeWithZone then time(value)
          when Hash then value.to_h { |key, item| [of(key, depth + 1), of(item, depth + 1)] }
          when Array then value.map { |item| of(item, depth + 1) }
          when PG::Result then result(value)
          when ActiveRecord::Relation then of(value.to_a, depth)
          when ActiveRecord::Base then record(value)
          when ActiveModel::Attribute then [value.name, value.type.class.name, of(value.value_before_type_cast, depth + 1)]
          when Exception then exception(value)
          when *NAMED then "a #{value.is_a?(Module) ? text(value.name.to_s) : text(value.class.name)}"
          else object(value, depth)
          end
        end

        # @return [String]
        def plain(string)
          string = string.dup.force_encoding(Encoding::UTF_8) unless string.encoding == Encoding::UTF_8
          string = string.scrub("?")
          return string unless ANY.match?(string)
          string = string.gsub(/\d{5,}/) { |number| (number.to_i < OWN) ? number : "…" } if string.include?("pg_type")
          string = string.split(";").sort.join(";") if string.include?("TRIGGER ALL") # the catalogue's order of tables varies
          TEXT.inject(string) { |text, (pattern, replacement)| text.gsub(pattern, replacement) }
        end

        private

        # Binary text stays bytes.
        def text(string)
          return "#{string.encoding} #{string.inspect}" if !string.valid_encoding? || string.encoding == Encoding::BINARY
          (string.encoding == Encoding::UTF_8) ? plain(string) : "#{string.encoding} #{plain(string)}"
        end

        def time(value)
          return "#{value.class}, now" if (value.to_f - Time.now.to_f).abs < PRESENT
          "#{value.class} #{value.inspect}"
        end

        def result(value)
          return "a PG::Result that was cleared" if value.cleared?
          columns = value.nfields.times.map { |at| [value.fname(at), number(value.ftype(at)), value.fmod(at), value.fformat(at)] }
          {columns:, values: of(value.values), status: value.cmd_status, kind: value.res_status, tuples: value.cmd_tuples}
        end

        def number(oid) = (oid < OWN) ? oid : :own

        def record(value) = [value.class.name, of(value.attributes), value.new_record?, value.destroyed?, value.changed, value.errors.full_messages]

        def exception(value)
          details = {class: value.class.name, message: plain(value.message)}
          details[:sql] = of([value.sql, value.binds]) if value.respond_to?(:binds) && !Differential::EARLY
          details[:cause] = exception(value.cause) if value.cause
          details[:result] = value.result.error_field(PG::PG_DIAG_SQLSTATE) if value.respond_to?(:result) && value.result
          details
        end

        def object(value, depth)
          return "#{value.class}, deep" if depth >= DEEPEST
          inner = value.instance_variables.sort.to_h { |name| [name, (name == :@oid) ? number(value.instance_variable_get(name).to_i) : of(value.instance_variable_get(name), depth + 1)] }
          inner[:members] = of(value.to_a, depth + 1) if Struct === value || Set === value
          inner.empty? ? "#{value.class} #{plain(value.inspect)}" : ["a #{plain(value.class.name.to_s)}", inner]
        end
      end
    end
  end
end
