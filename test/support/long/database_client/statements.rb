# frozen_string_literal: true

module NeverBlockTest
  class DatabaseClient
    # Acts of one call each: reads and writes, with and without parameters, slow and large ones, and errors.
    module Statements
      private

      def read(nonce) = own(nonce, one(@database.exec("select '#{nonce}'::text as n")))

      def read_with_parameters(nonce) = own(nonce, one(@database.exec("select $1::text as n", [nonce])))

      def read_audited(nonce) = own(nonce, one(@shared.exec("select $1::text as n", [nonce])))

      # The policy shows no row without a tenant.
      def read_of_nobody(nonce)
        row = @database.exec("select $1::text, (select count(*) from soak_secrets)", [nonce]).values.first
        @wrong << "outside of all settings #{row.inspect} was seen" unless row == [nonce, "0"]
      end

      def read_state(nonce)
        row = @database.exec("#{STATE} where $1 <> ''", [nonce]).values.first
        @wrong << "a shared connection keeps #{row.inspect}" unless row == FRESH
      end

      def slow(nonce) = own(nonce, one(@database.exec("select '#{nonce}'::text from pg_sleep(0.02)")))

      def large(nonce)
        text, size, mine = @database.exec("select $1::text, repeat('x', 200000), $2::text", [nonce, "y" * 100_000]).values.first
        own(nonce, text)
        @wrong << "a large answer was cut" unless size.bytesize == 200_000 && mine.bytesize == 100_000
      end

      def error(nonce)
        @database.exec("select 1 / (random() * 0)::int")
        @wrong << "#{nonce} was given no error"
      end

      def several(nonce) = own(nonce, one(@database.exec("select 1; select '#{nonce}'::text")))

      def write(nonce)
        own(nonce, one(@database.exec(insert(nonce))))
        :applied
      end

      def write_with_parameters(nonce)
        own(nonce, one(@database.exec("insert into soak (nonce) values ($1) returning nonce", [nonce])))
        :applied
      end

      def write_shared(nonce)
        own(nonce, one(@shared.exec("insert into soak (nonce) values ($1) returning nonce", [nonce])))
        :applied
      end
    end
  end
end
