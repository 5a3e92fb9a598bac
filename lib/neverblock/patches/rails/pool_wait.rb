# frozen_string_literal: true

module NeverBlock
  module Patches
    module Rails
      # Reports how long a request waited for a connection of a pool. Prepended to the pool's queue, whose `wait_poll`
      # runs only when no connection is free.
      module PoolWait
        class << self
          # @return [#waited] receives the pool and the seconds
          attr_reader :watch

          # @param watch [#waited]
          def apply(watch)
            @watch = watch
            ActiveRecord::ConnectionAdapters::ConnectionPool::Queue.prepend(self)
          end
        end

        private

        def wait_poll(timeout)
          started = Clock.now
          super
        ensure
          # The queue's lock is the pool.
          PoolWait.watch.waited(@lock, Clock.now - started)
        end
      end
    end
  end
end
