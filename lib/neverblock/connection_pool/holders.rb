# frozen_string_literal: true

module NeverBlock
  class ConnectionPool
    # Describes the fibers and threads that hold a pool's connections. It is computed on request, so a check-out costs
    # nothing more for it.
    #
    #   holders = Holders.new(places.holdings)
    #   holders.to_a     # => [{name: "import", age: 2.1, at: "app/import.rb:12", ended: false}]
    #   holders.words    # => "import for 2.1 s, now at app/import.rb:12"
    # @api private
    class Holders
      # Holders that a message names.
      MAX_NAMED = 20
      private_constant :MAX_NAMED

      # @param places [Array<Place>]
      def initialize(places)
        @places = places
      end

      # @return [Array<Hash{Symbol=>Object}>] the oldest first: `name` of the task or thread, `age` in seconds, `at`
      #   (the line of the program where it is), `ended` (whether its fiber has ended without a check-in)
      def to_a
        now = Clock.now
        holdings = @places.filter_map { |place| [place, place.fiber] if place.fiber }
        tasks = tasks_of(holdings.map(&:last))
        holdings.map { |place, fiber| describe(place, fiber, tasks[fiber], now) }.sort_by { |holder| -holder[:age] }
      end

      # @return [String]
      def words
        holders = to_a
        words = holders.first(MAX_NAMED).map { |holder| say(**holder) }
        words << "and #{holders.size - MAX_NAMED} more" if holders.size > MAX_NAMED
        words.join("; ")
      end

      private

      # In one pass over each loop, which may have ten thousand tasks.
      def tasks_of(fibers)
        Loops.all.each_with_object({}.compare_by_identity) do |scheduler, found|
          fibers.zip(scheduler.tasks_of(fibers)) { |fiber, task| found[fiber] ||= task }
        end
      end

      def describe(place, fiber, task, now)
        {
          name: task ? task.name || "a task" : place.thread.name || "a thread", age: (now - place.since).round(3),
          at: ProgramLine.of(task ? fiber : place.thread), ended: !fiber.alive?
        }
      end

      def say(name:, age:, at:, ended:)
        [format("%s for %.1f s", name, age), ("whose fiber has ended" if ended), ("now at #{at}" if at)]
          .compact.join(", ")
      end
    end
  end
end
