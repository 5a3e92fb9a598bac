# frozen_string_literal: true

module NeverBlockTest
  class DatabaseClient
    # Acts of Sequel.
    module SequelActs
      private

      def sequel_find(_nonce)
        number = @random.rand(1..50)
        name = @sequel[:soak_items].where(id: number).get(:name)
        @wrong << "item #{number} was #{name}" unless name == "item #{number}"
      end

      def sequel_create(nonce)
        @sequel[:soak].insert(nonce:)
        :applied
      end

      def sequel_transaction(nonce)
        @sequel.transaction do
          @sequel[:soak].insert(nonce:)
          @sequel.transaction(savepoint: true) do
            @sequel[:soak].insert(nonce: "#{nonce}-inner")
            raise Sequel::Rollback
          end
          own(nonce, @sequel[:soak].where(nonce:).get(:nonce))
          raise Enough if @random.rand(3) == 0
        end
        :applied
      end
    end
  end
end
