# frozen_string_literal: true

module NeverBlock
  class Postgres
    # What no fiber of the user's is to do or to wait for: the one that gave a connection back may be about to end.
    #
    #   Background.run { restore(connection) }
    #
    # @api private
    module Background
      # By a task of its own in a loop, else at once; also where no task can be made, for there is no memory.
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
