# frozen_string_literal: true

module NeverBlockTest
  class DatabaseClient
    # Acts whose answers depend on definitions that change meanwhile: a column's type, the place of a table.
    module Definitions
      # The value is a moment or a clock's time, depending on the column's current type: the answer must never mix the
      # two.
      TYPED = "select what, pg_typeof(at)::text from soak_typed where at = $1 and $2 <> ''"
      MEANINGS = [["of a moment", "timestamp with time zone"], ["of a clock", "timestamp without time zone"]].freeze

      private

      def read_typed(nonce, database = @database)
        rows = database.exec(TYPED, ["2026-01-01 05:00:00+05:00", nonce]).values
        @wrong << "a typed column answered #{rows.inspect}" unless rows.size == 1 && MEANINGS.include?(rows.first)
      end

      def read_typed_shared(nonce) = read_typed(nonce, @shared)

      def migrate(_nonce)
        type = %w[timestamp timestamptz].sample(random: @random)
        @database.transaction do |connection|
          connection.exec("lock table soak_typed in access exclusive mode")
          next if one(connection.exec("select atttypid = '#{type}'::regtype from pg_attribute where attrelid = 'soak_typed'::regclass and attname = 'at'")) == "t"
          connection.exec("alter table soak_typed alter column at type #{type} using at at time zone 'UTC'")
        end
      end

      # The search path of new connections changes now and then, but never back and forth between reads.
      def read_place(_nonce)
        places = Array.new(8) { one(@database.exec("select place from soak_place")) }
        changes = places.each_cons(2).count { |one, other| one != other }
        @wrong << "a name meant #{places.inspect}" if changes > 2
      end
    end
  end
end
