# frozen_string_literal: true

module NeverBlockTest
  class DatabaseClient
    # Acts of Active Record, and its models.
    module Records
      # A row for each nonce that may be in the database.
      class Note < ActiveRecord::Base
        self.table_name = "soak"
        self.primary_key = "nonce"
      end

      # Existing rows, for all fibers to read and to lock.
      class Item < ActiveRecord::Base
        self.table_name = "soak_items"
      end

      # Rows that a policy shows to their owner only.
      class Secret < ActiveRecord::Base
        self.table_name = "soak_secrets"
      end

      private

      def record_find(_nonce)
        number = @random.rand(1..50)
        name = Item.find(number).name
        @wrong << "item #{number} was #{name}" unless name == "item #{number}"
      end

      def record_create(nonce)
        Note.create!(nonce:)
        :applied
      end

      def record_transaction(nonce)
        Note.transaction do
          Note.create!(nonce:)
          Note.transaction(requires_new: true) do
            Note.create!(nonce: "#{nonce}-inner")
            raise ActiveRecord::Rollback
          end
          own(nonce, Note.where(nonce:).pick(:nonce))
          raise Enough if @random.rand(3) == 0
        end
        :applied
      end

      def record_lock(_nonce)
        number = @random.rand(1..50)
        Item.transaction do
          item = Item.lock.find(number)
          @wrong << "item #{number} was #{item.name}" unless item.name == "item #{number}"
        end
        nil
      end

      def record_insert_all(nonce)
        Note.insert_all!([{nonce:}])
        :applied
      end

      def record_tenant(nonce)
        number = @random.rand(1..TENANTS)
        Secret.with_connection do |connection|
          connection.with_settings("soak.tenant" => number) do
            seen = Secret.distinct.pluck(:tenant)
            @wrong << "tenant #{number} saw #{seen} (#{nonce})" unless seen == [number]
          end
        end
        nil
      end

      # Few texts, since statistics per text are kept until there are thousands.
      def record_session(_nonce)
        value = "session #{@random.rand(1..TENANTS)}"
        Item.with_connection do |connection|
          connection.execute("SET soak.tenant TO '#{value}'")
          own(value, connection.select_value("select current_setting('soak.tenant')"))
        end
      end
    end
  end
end
