# frozen_string_literal: true

module NeverBlockTest
  class DatabaseClient
    # The end of a round: waits until all connections are idle, and looks at what they and the process keep.
    module Rest
      private

      def settle
        deadline = now + 20
        until databases.all? { |database| database.stats.values_at(:held, :in_flight, :queued, :opening).all?(&:zero?) }
          @wrong << "not at rest: #{databases.map { |database| [database.inspect, *unrest(database)] }}" and break if now > deadline
          sleep 0.01 # real: the database's responses
        end
      end

      # @return [Array<String>] the state of each connection that is not idle
      def unrest(database)
        database.multiplexer.pool.connections.reject(&:idle?).map do |real|
          states = %i[holder draining relieving asking put_off stale inquiry].map { |name| "#{name} #{real.public_send(name).inspect[0, 300]}" }
          [real.inspect, *states, "head abandoned: #{real.head&.awaited&.abandoned?}"].join(", ")
        end
      end

      # Checks out all connections at once: none may keep session state.
      def inspect_connections
        databases.each do |database|
          found = []
          limit = database.stats[:connections]
          next if limit.zero?
          count = [limit - 1, 1].max
          started = now
          all = Array.new(count) do
            NB.spawn do
              database.connect do |connection|
                found << connection.exec(STATE).values.first
                deadline = now + 5
                # real: the database's responses on the other connections
                sleep 0.002 until found.size >= count || now > deadline
              end
            rescue PG::ConnectionBad # the connection was terminated a moment ago, or the server is still recovering
              sleep 0.01 # real: the server's recovery
              retry if now - started < 20
            end
          end
          all.each(&:join)
          kept = found.uniq - [FRESH]
          @wrong << "connections keep #{kept}" if kept.any?
          @wrong << "#{found.size} of #{count} connections could be looked at" if found.size < count
        end
      end

      def report
        leaks = @logged.grep_v(/held until check-in|all connections are replaced|the catalogue\b.* could not be read/)
        leaks = leaks.grep_v(/TimeZone was/) if @pooled # a pooler forwards a reload, and no session can be asked for the origin of a setting
        {told: @told, done: @done, ended: @ended, wrong: (@wrong + leaks).first(20)}
      end

      # The resources that the process holds when the round is over.
      def held
        reset
        @logged.clear
        forget
        Process.warmup # returns memory that malloc keeps, so that it doesn't count as growth
        Thread.new { NeverBlock::Postgres::Janitor.run_once }.join # as each minute, on a thread; this also starts Timeout's thread
        2.times { GC.start }
        memory = File.read("/proc/self/smaps_rollup")[/^Pss:\s+(\d+)/, 1].to_i * 1024
        counts = ObjectSpace.count_objects
        connections = databases.sum { |database| database.stats[:connections] }
        {pss: memory, objects: counts[:TOTAL] - counts[:FREE], descriptors: Dir.children("/proc/self/fd").size - connections, threads: Thread.list.size}
      end

      # Clears the statistics per text: up to some thousands of texts, they take minutes to reach their size.
      def forget
        ObjectSpace.each_object(NeverBlock::Sql::ClassificationCache, &:clear)
      end
    end
  end
end
