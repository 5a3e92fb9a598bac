# frozen_string_literal: true

module NeverBlock
  module Patches
    module Rails
      # Makes Active Record verify a connection after an interrupted statement. A request that is cancelled or timed out
      # during a statement leaves its connection with a pending result. Active Record still trusts the connection unless
      # a StandardError interrupted it, so the next request would read that result (rails#57953; later 8.0 and 8.1
      # releases fix the case of other exceptions, but not that of throw).
      module InterruptedQuery
        # Prepended to ActiveRecord::ConnectionAdapters::AbstractAdapter.
        module Connection
          private

          def with_raw_connection(...)
            value = super
            ended = true
            value
          ensure
            @verified, @last_activity = false, nil unless ended
          end
        end

        # An adapter without a connection.
        class Trial
          def self.adapter
            Class.new(ActiveRecord::ConnectionAdapters::AbstractAdapter) {
              def trusted_after_interruption?
                @raw_connection, @verified = Object.new, true
                catch(self) { with_raw_connection { throw self } }
                @verified
              end
            }.new({})
          end
        end

        def self.needed? = defined?(ActiveRecord) && Trial.adapter.trusted_after_interruption?

        def self.apply = ActiveRecord::ConnectionAdapters::AbstractAdapter.prepend(Connection)
      end
    end
  end
end
