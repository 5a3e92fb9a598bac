# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Runs work for which no fiber of the application should have to wait: the fiber that has checked in a connection
    # may end soon.
    #
    #   Background.run { restore(connection) }
    #
    # @api private
    module Background
      # Runs the block in a task of its own. Without a loop, or without memory for a task, it runs at once.
      # @return [void]
      def self.run
        scheduler = Scheduler.current or return yield
        begun = false
        task = scheduler.background do
          begun = true
          yield
        end
        yield unless begun || task.alive?
      end
    end
  end
end
