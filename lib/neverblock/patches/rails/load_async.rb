# frozen_string_literal: true

module NeverBlock
  module Patches
    module Rails
      # `load_async` and its company run in fibers of the loop, over the connections that all share, and not in threads, whatever
      # `config.active_record.async_query_executor` says; in a block of NeverBlock.pipeline at its end. With
      # adapters that share connections alone; outside of a loop it is as it was.
      module LoadAsync
        # Prepended to ActiveRecord::ConnectionAdapters::ConnectionPool.
        module Pool
          # It begins at once, so that it is under way, and not left to whoever asks for it, when that comes without a wait between.
          # @param future_result [ActiveRecord::FutureResult]
          # @return [void]
          def schedule_query(future_result) # :nodoc:
            return super unless Scheduler.current && ActiveRecordAdapters.known?(db_config.adapter)
            run = -> { future_result.execute_or_skip }
            return Postgres::Pipeline.collected << run if Postgres::Pipeline.collected
            carry = Postgres::Pipeline::Spans.carry
            Fiber.schedule { carry ? carry.call(&run) : run.call }
          end
        end

        def self.apply = ActiveRecord::ConnectionAdapters::ConnectionPool.prepend(Pool)
      end
    end
  end
end
