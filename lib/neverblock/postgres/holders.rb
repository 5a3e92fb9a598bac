# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Describes what holds the connections of a pool: the statement, since when, the task, and the line of the program.
    # It is computed on request, so a held connection costs nothing more for it.
    #
    #   holders = Holders.new(router.holdings).to_a
    #   holders.first                # => {state: "leased", purpose: "a transaction …", statement: "UPDATE …", age: 1.2,
    #   …} Holders.words(holders, 12)   # => "1 of 12 are held (a transaction …, for 1.2 s, …)"
    # @api private
    class Holders
      # Holders that a message names.
      MAX_NAMED = 20
      private_constant :MAX_NAMED

      # @param holders [Array<Hash>] of {#to_a}
      # @param size [Integer] maximum number of connections
      # @return [String]
      def self.words(holders, size)
        words = holders.first(MAX_NAMED).map { |holder| say(**holder) }
        words << "and #{holders.size - MAX_NAMED} more" if holders.size > MAX_NAMED
        "#{holders.size} of #{size} are held#{" (#{words.join("; ")})" if words.any?}"
      end

      def self.say(purpose:, statement:, age:, rests:, spawned_at:, at:, ended:, **)
        runs = statement && "by #{statement}"
        runs = format("which has been idle for %.1f s%s", rests, (" after #{statement}" if statement)) if rests
        [
          purpose, (format("for %.1f s", age) if age), runs,
          ("whose fiber has ended" if ended), spawned_at && "spawned at #{spawned_at}", at && "now at #{at}"
        ].compact.join(", ")
      end
      private_class_method :say

      # @param holdings [Array<Array(PipelinedConnection, Holder)>]
      def initialize(holdings)
        @holdings = holdings
        @now = Clock.now
      end

      # @return [Array<Hash{Symbol=>Object}>] the oldest first: `state` (leased, alone, restoring), `purpose`,
      #   `statement` (the running or last one), `age` in seconds, `rests` (seconds since the last statement of a lease;
      #   nil while one runs), `task` (its name), `spawned_at`, `at` (the line of the program where it is), `ended`
      #   (whether its fiber has ended, so that it will not check the connection in)
      def to_a
        tasks = tasks_by_fiber
        holders = @holdings.map { |connection, holder| describe(connection, holder, tasks) }
        holders.sort_by { |holder| -(holder[:age] || 0) }
      end

      private

      def describe(connection, holder, tasks)
        owner = holder.owner
        task = tasks[owner]
        age = age(holder.held_since)
        {
          state: state(holder), purpose: short(holder.purpose), statement: short(connection.head&.sql || holder.sql),
          age:, rests: rests(connection, holder, age),
          task: short(task&.name), spawned_at: short(task&.place), at: (short(ProgramLine.of(owner)) if owner),
          ended: !owner.nil? && !owner.alive?
        }
      end

      def state(holder)
        return "leased" if holder.lease?
        holder.alone? ? "alone" : "restoring"
      end

      def age(since) = since && [@now - since, 0.0].max.round(3)

      # nil if the user may be using the real connection itself: nothing is known of that.
      def rests(connection, holder, age)
        return unless holder.lease? && connection.idle? && !connection.plain?
        [age(connection.heard), age].compact.min
      end

      # In one pass over each loop, which may have ten thousand tasks.
      def tasks_by_fiber
        owners = @holdings.map(&:last).select(&:owner).group_by(&:loop)
          .transform_values { |holders| holders.map(&:owner) }
        owners.each_with_object({}.compare_by_identity) do |(loop, fibers), found|
          found.update(fibers.zip(loop.tasks_of(fibers)).to_h) if loop
        end
      end

      def short(text) = text && Excerpt.of(text)
    end
  end
end
