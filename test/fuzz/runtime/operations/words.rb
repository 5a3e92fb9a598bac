# frozen_string_literal: true

module NeverBlockFuzz
  module Operations
    # NeverBlock's own methods: concurrently, race, FiberPool, Flight, Semaphore.
    module Words
      private

      def prepare_words
        @flight = NeverBlock::Flight.new
        @computing = Hash.new(0)
        @computed = Hash.new { |hash, key| hash[key] = {} }
        @semaphores = [NeverBlock::Semaphore.new(1), NeverBlock::Semaphore.new(3)]
        @holders = [0, 0]
        @pools = []
      end

      def settle_words
        @semaphores.each do |semaphore|
          ledger.check(:place_held, semaphore.available == semaphore.size) { "#{semaphore.available} of #{semaphore.size} places of a semaphore are free" }
        end
        ledger.check(:flight_left, @flight.size.zero?) { "#{@flight.size} flights are on" }
        @pools.each do |pool, started|
          stats = pool.stats
          settled = stats.values_at(:running, :queued) == [0, 0] && stats[:finished] <= started.size # fewer if its scope was being cancelled
          ledger.check(:pool_count, settled) { "#{started.size} tasks were spawned in a pool: #{stats}" }
        end
      end

      # Counts up while the block runs, and fails if the count exceeds the allowed number.
      def counted(counts, key, most, what)
        counts[key] += 1
        ledger.check(:too_many, counts[key] <= most) { "#{counts[key]} at a time in #{what}, where #{most} are allowed" }
        yield
      ensure
        counts[key] -= 1
      end

      # A group for tasks that a method of NeverBlock spawns.
      def word(at)
        group = Strand::Group.new(at, nil, nil)
        at.opened << group
        unwinding(group) { yield group }
      rescue Injected => error
        check_raised(error, at)
      ensure
        at.opened.delete_if { |one| one.equal?(group) }
      end

      # The method's task exists already: the strand is the code that it runs.
      def joined(group)
        strand = Strand.new(nil, group)
        @ledger.strands << strand
        strand_body(strand, false) { yield strand }
      end

      def op_concurrently(node, at)
        running = Hash.new(0)
        items, limit = node.args.values_at(:items, :limit)
        word(at) do |group|
          values = NeverBlock.concurrently(1..items, limit:) do |item|
            counted(running, 0, limit, "concurrently") { joined(group) { |strand| perform(node.body, strand) } }
            item
          end
          ledger.check(:word_value, values == (1..items).to_a) { "concurrently returned #{values.inspect}" }
        end
      end

      def op_race(node, at)
        finished = []
        word(at) do |group|
          winner = NeverBlock.race(*node.body.map { |contest|
            lambda do
              joined(group) { |strand| perform(contest.body, strand) }
              finished << contest.id
              group.reason ||= :race_over
              contest.id
            end
          })
          ledger.check(:word_value, finished.include?(winner)) { "race returned #{winner.inspect}; finished are #{finished.inspect}" }
        end
      end

      # A loser that has an item keeps it for the program, so that none is lost.
      def op_race_queues(node, at)
        word(at) do |group|
          contests = node.args[:queues].map do |number|
            lambda do
              joined(group) { |strand| take(number, strand) { |queue| queue.pop(timeout: node.args[:limit]) } }
              group.reason ||= :race_over
            end
          end
          NeverBlock.race(*contests)
        end
      end

      # Each value is yielded once, with its item, and a callable keeps its place until its value has been taken.
      def op_as_completed(node, at)
        items, tasks, limit, stop, slow = node.args.values_at(:items, :tasks, :limit, :stop, :slow)
        running = Hash.new(0)
        given = []
        word(at) do |group|
          given.concat(Array.new(tasks) { start(nil, at) { |strand| nap(0.001, strand) } })
          calls = Array.new(items) do |item|
            lambda do
              counted(running, 0, limit, "as_completed") { joined(group) { |strand| perform(node.body, strand) } }
              item
            end
          end
          sources = [*calls.zip(0..), *given.map { |strand| [strand.task, strand.token] }].to_h.compare_by_identity
          expected = sources.to_a
          count = NeverBlock.as_completed(sources.keys.rotate(tasks / 2), limit:) do |value, source|
            nap(slow, at) if slow
            ledger.check(:word_value, expected.delete([source, value])) { "as_completed yielded #{value.inspect} of #{source.inspect}, which is not its or came before" }
            next unless sources.size - expected.size == stop
            group.reason ||= :stopped
            break :stopped
          end
          ledger.check(:word_value, (count == :stopped) ? stop : count == sources.size && expected.empty?) { "as_completed returned #{count.inspect} with #{expected.size} of #{sources.size} left" }
        end
      rescue NeverBlock::Cancelled
        raise unless given.any? { |strand| strand.task.cancelled? } # their scope was cancelled before
      end

      def op_contest(node, at) = perform(node.body, at)

      def op_pool(node, at)
        size, tasks = node.args.values_at(:size, :tasks)
        running = Hash.new(0)
        pool = NeverBlock::FiberPool.new(size)
        @pools << [pool, started = []]
        tasks.times do
          started << start(nil, at, spawner: pool.method(:spawn)) do |strand|
            counted(running, 0, size, "a pool") { perform(node.body, strand) }
          end
        end
        return unless node.args[:drain]
        pool.drain
        stats = pool.stats
        ledger.check(:pool_count, stats[:running].zero? && stats[:queued].zero?) { "drain has returned: #{stats}" }
      end

      # At most one task computes a key at a time, and all get its value.
      def op_flight(node, at)
        key = node.args[:key]
        value = @flight.call(key) do
          counted(@computing, key, 1, "a flight") do
            perform(node.body, at)
            number = @ledger.number
            @computed[key][number] = true
            number
          end
        end
        ledger.check(:word_value, @computed[key].key?(value)) { "a flight returned #{value.inspect}, which no task computed" }
      end

      def op_semaphore(node, at)
        hold_semaphore(node, at) { perform(node.body, at) }
      end

      def op_semaphore_wait(node, at)
        hold_semaphore(node, at) { NeverBlock.pass }
      end

      def hold_semaphore(node, at)
        number, limit = node.args.values_at(:semaphore, :limit)
        held = false
        started = now
        @semaphores[number].acquire(timeout: limit) do
          held = true
          counted(@holders, number, @semaphores[number].size, "a semaphore") { yield }
        end
      rescue NeverBlock::TimeoutError
        raise if held || !limit
        ledger.check(:timeout_early, now - started >= limit) { "acquire(timeout: #{limit}) gave up after #{now - started} s" }
      end
    end
  end
end
