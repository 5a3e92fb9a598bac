# frozen_string_literal: true

module NeverBlock
  module Patches
    module Rails
      # A request that is cancelled, or timed out, amid a statement leaves its connection with an answer still to come. Active
      # Record trusts such a connection unless a StandardError left it, so that the next request would read that answer
      # (rails#57953, of which later 8.0 and 8.1 fix what is raised, but not what is thrown). It is verified
      # before its next use.
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

        # An adapter that is connected to nothing.
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
