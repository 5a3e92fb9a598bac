# frozen_string_literal: true

module NeverBlockTest
  class DatabaseClient
    # Acts that change what a session keeps: settings, temporary tables, locks, cursors, channels, tenants and roles.
    module Sessions
      LISTENS = 10 # seconds, longer than any fault

      private

      def set(nonce)
        @database.connect do |connection|
          connection.exec("set soak.tenant to '#{nonce}'")
          connection.exec("set statement_timeout to 54321")
          own(nonce, one(connection.exec("select current_setting('soak.tenant')")))
        end
        nil
      end

      def keep_in_function(nonce) = own(nonce, one(@database.exec("select soak_keeps('#{nonce}')")))

      def temporary_table(nonce)
        @database.connect do |connection|
          connection.exec("create temporary table mine as select '#{nonce}'::text as n")
          own(nonce, one(connection.exec("select n from mine")))
        end
      end

      # No other session can have the lock at the same time.
      def advisory_lock(nonce)
        key = @random.rand(1..3)
        @database.connect do |connection|
          next unless one(connection.exec("select pg_try_advisory_lock(4711, #{key})")) == "t"
          holder = (@holders ||= {})
          own(nonce, one(connection.exec("select '#{nonce}'::text")))
          holder[key] = nonce
          connection.exec("select pg_sleep(0.001)")
          own(nonce, holder[key])
        end
      end

      def cursor(nonce)
        @database.transaction do |connection|
          connection.exec("declare c cursor for select '#{nonce}-' || n from generate_series(1, 30) n")
          rows = Array.new(3) { connection.exec("fetch 10 from c").column_values(0) }.flatten
          @wrong << "a cursor of #{nonce} gave #{rows.first(3)}" unless rows == (1..30).map { |n| "#{nonce}-#{n}" }
        end
        nil
      end

      def cursor_with_hold(nonce)
        @database.connect do |connection|
          connection.exec("declare held cursor with hold for select '#{nonce}'::text")
          own(nonce, one(connection.exec("fetch 1 from held")))
        end
      end

      # Two at a time, since each needs a second connection.
      def listen(nonce)
        @listeners.push(nonce, timeout: 0.5) or return
        begin
          @database.connect do |connection|
            connection.exec("listen soak_news")
            @database.exec("select pg_notify('soak_news', '#{nonce}')")
            news = nil
            heard = true
            heard = connection.wait_for_notify(LISTENS) { |_channel, _pid, payload| news = payload } until news == nonce || !heard
            @wrong << "#{nonce} never heard its own news" unless heard
          end
        ensure
          @listeners.pop(true)
        end
      end

      def copy(nonce)
        @database.connect do |connection|
          connection.exec("BEGIN")
          connection.copy_data("copy soak (nonce) from stdin") { connection.put_copy_data("#{nonce}\n") }
          connection.exec("COMMIT")
        end
        :applied
      end

      # ---- tenants and roles ----

      def tenant(nonce)
        number = @random.rand(1..TENANTS)
        @database.with_settings("soak.tenant" => number) do |connection|
          rows = connection.exec_params("select $1::text, string_agg(distinct tenant::text, ',') from soak_secrets", [nonce]).values.first
          @wrong << "tenant #{number} saw #{rows.inspect}" unless rows == [nonce, number.to_s]
        end
        nil
      end

      def role(nonce)
        name = "soak_role_#{@random.rand(1..2)}"
        @database.with_settings(role: name, search_path: %w[soak_other public]) do |connection|
          rows = connection.exec("select '#{nonce}', current_user, current_setting('search_path')").values.first
          @wrong << "#{name} was #{rows.inspect}" unless rows == [nonce, name, "soak_other, public"]
        end
        nil
      end
    end
  end
end
