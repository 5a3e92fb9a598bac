# frozen_string_literal: true

module NeverBlockFuzz
  module Operations
    # NeverBlock.select: one source wins, and the others neither lose nor gain an item, however the wait ends.
    module Choices
      # A source for select. `feeder`: the task, thread or timer that makes it ready; `ends`: descriptors to close.
      Source = Struct.new(:kind, :subject, :expected, :feeder, :ends) do
        def add(on)
          case kind
          when :pop, :closed then on.pop(subject) { |value| [self, value] }
          when :push then on.push(subject, expected) { |value| [self, value] }
          when :readable then on.readable(subject) { |value| [self, value] }
          when :writable then on.writable(subject) { |value| [self, value] }
          when :timer then on.after([subject - Process.clock_gettime(Process::CLOCK_MONOTONIC), 0].max) { |value| [self, value] }
          else on.value(subject) { |value| [self, value] }
          end
        end

        # @return [Boolean] whether it may still become ready
        def coming? = (kind == :timer) ? Process.clock_gettime(Process::CLOCK_MONOTONIC) < subject : feeder.alive?

        # @return [Boolean] whether select takes it as an argument, to read, pop or wait for a value
        def argument? = !%i[push writable timer].include?(kind)
      end
      private_constant :Source

      private

      # Queues that all tasks share.
      def op_choose(node, at)
        pops, pushes, limit, how = node.args.values_at(:pops, :pushes, :limit, :with)
        items = pushes.to_h { |number| [@ledger.number, @queues[number]] }
        put = []
        ended = false
        items.each_key { |item| @ledger.pushing(item) }
        started = now
        expired, won = limited(at, (limit if how == :around)) do
          NeverBlock.select(timeout: (limit if how == :argument)) do |on|
            pops.each { |number| on.pop(@queues[number]) { |item| @ledger.received(item) } }
            items.each { |item, queue| on.push(queue, item) { put << item } }
            on.after(limit) {} if how == :timer
          end
        end
        ended = true
        ledger.check(:timeout_early, expired || won || now - started >= limit) { "select gave up after #{now - started} s: #{node.title}" }
      ensure
        items&.each_key { |item| put.include?(item) ? @ledger.pushed(item) : @ledger.not_pushed(item) }
        @ledger.unsure_pop(at.serial) unless ended
      end

      # Sources of this operation alone, which become ready one after another. Each wins once, with its value.
      def op_choose_all(node, at)
        sources = []
        inside(at) do
          node.args[:sources].each { |kind, seconds| sources << send(:"source_#{kind}", seconds, at) }
          choose_each(sources.dup, node, at)
        end
      ensure
        sources&.each { |source| source.ends&.each { |one| one.close unless one.closed? } }
      end

      def choose_each(left, node, at)
        until left.empty?
          coming = left.any?(&:coming?) # checked first: a source that is ready now must win
          expired, won = limited(at, (node.args[:limit] if coming)) { choose_one(left, node.args[:plain], coming ? nil : 0) }
          next if expired
          return choice_lost(left, node) unless won
          source, value = won
          left.delete_if { |one| one.equal?(source) }
          check_choice(source, value, node)
        end
      end

      def choice_lost(left, node)
        ledger.check(:choice_lost, ledger.interrupts > 0) { "select found nothing ready of #{left.map(&:kind).inspect}: #{node.title}" }
      end

      # @return [Array(Source, Object), nil] the winner and its value
      def choose_one(left, plain, timeout)
        return NeverBlock.select(timeout:) { |on| left.each { |source| source.add(on) } } unless plain && left.all?(&:argument?)
        subject, value = NeverBlock.select(*left.map(&:subject), timeout:)
        [left.find { |source| source.subject.equal?(subject) }, value] if subject
      end

      def check_choice(source, value, node)
        effect = case source.kind
        when :push then source.subject.pop(true) == source.expected
        when :readable then source.subject.read_nonblock(5, exception: false) == "x"
        when :writable then source.subject.write_nonblock("y", exception: false) == 1
        when :timer then now >= source.subject
        else true
        end
        ledger.check(:choice_value, effect && value.equal?(source.expected)) do
          "select returned #{value.inspect} of a #{source.kind}, expected #{source.expected.inspect}, effect #{effect}: #{node.title}"
        end
      end

      # Starts the task that makes a source ready.
      def feed(seconds, at) = start(nil, at) { |strand| nap(seconds, strand).then { yield } }.task

      def source_pop(seconds, at)
        queue = Thread::Queue.new
        item = "item"
        Source.new(:pop, queue, item, feed(seconds, at) { queue << item })
      end

      def source_closed(seconds, at)
        queue = Thread::Queue.new
        Source.new(:closed, queue, nil, feed(seconds, at) { queue.close })
      end

      def source_push(seconds, at)
        queue = Thread::SizedQueue.new(1)
        queue << "full"
        Source.new(:push, queue, "item", feed(seconds, at) { queue.pop })
      end

      def source_promise(seconds, at)
        promise = NeverBlock::Promise.new
        value = "value"
        Source.new(:promise, promise, value, feed(seconds, at) { promise.fulfill(value) })
      end

      def source_task(seconds, at)
        strand = start(nil, at) { |one| nap(seconds, one) }
        Source.new(:task, strand.task, strand.token, strand.task)
      end

      def source_thread(seconds, _at)
        value = "value #{@ledger.number}"
        thread = helper(value) { sleep(seconds) && value }
        Source.new(:thread, thread, value, thread)
      end

      def source_timer(seconds, _at) = Source.new(:timer, now + seconds)

      def source_readable(seconds, at)
        ends = open_ends(:pipe)
        Source.new(:readable, ends.first, ends.first, feed(seconds, at) { ends.last.write("x") }, ends)
      end

      def source_writable(seconds, at)
        reader, writer = ends = open_ends(:pair)
        full = 0
        while (written = writer.write_nonblock("x" * 65_536, exception: false)).is_a?(Integer)
          full += written
        end
        Source.new(:writable, writer, writer, feed(seconds, at) { full -= reader.readpartial(65_536).bytesize while full > 0 }, ends)
      end
    end
  end
end
