# frozen_string_literal: true

module NeverBlock
  module Patches
    module Rails
      # Runs `load_async` and similar queries in fibers of the loop instead of threads, whatever
      # `config.active_record.async_query_executor` is. They use the shared connections. In a block
      # of NeverBlock.pipeline they run at its end. Only adapters that share connections are
      # affected, and only inside a loop.
      module LoadAsync
        # Prepended to ActiveRecord::ConnectionAdapters::ConnectionPool.
        module Pool
          # Starts the query at once. Otherwise its reader would run it itself if no wait came before the reading.
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
