# frozen_string_literal: true

require_relative "fill/abandoned"
require_relative "fill/interim"
require_relative "fill/reader"
require_relative "fill/truncated"
require_relative "spool"

module NeverBlock
  class Cache
    # A response that one task of the cache fetches, and the requests that wait for it. The task decides once what
    # becomes of them:
    #
    #   fill.share(entry)              # all of them get this response, and stream its body while it arrives
    #   fill.serve(entry)              # all of them get an entry that is complete
    #   fill.give(response, released)  # the first request has it alone; the others go on as `released` says
    #   fill.refuse                    # all of them go on by themselves
    #   fill.fail(error)               # the first request gets the error; the others try once more, together
    #
    # After `share` and `give` it appends the body's chunks: `fill << chunk`, `fill.finish`. A request joins, waits for
    # the decision, and reads:
    #
    #   reader = fill.join             # => Reader; nil: too many wait
    #   fill.decision(reader, 30)      # => :share, :serve, :give, :pass, :again, :retry, :fail; nil: none within 30 s
    #   fill.each(reader) { |chunk| … }
    #   fill.leave(reader)
    #
    # No reader slows the task or another reader, as long as the body fits into the limits of its {Spool}. Beyond them
    # the fastest reader sets the pace, and one that is more than `window` bytes behind is cut off.
    #
    # Without readers the task goes on, if it has a place: they are limited. At its end the task calls {#conclude}.
    #
    # Fibers of any loop and threads may use it.
    # @api private
    class Fill
      UNNEEDED = "no request waits for the rest of this response"
      ENDED = "the task that fetched this response was ended"
      HOLE = "the body went on after an error, so that a part of it is missing"
      private_constant :UNNEEDED, :ENDED, :HOLE

      # @return [Entry, nil] that is shared or served
      attr_reader :entry
      # @return [Array, nil] status, headers, and perhaps the body, of the response that is given to the first request
      attr_reader :response
      # @return [Symbol, nil] why it is not shared, or not stored
      attr_reader :reason
      # @return [Exception, nil] with which the fetch failed
      attr_reader :error
      # @return [Integer] requests that have joined
      attr_reader :joined
      # @return [Object] what is fetched, in {Fills}
      attr_reader :key
      # @return [Object] the store's generation before the fetch
      attr_reader :generation
      # The task that fetches; it is cancelled if nothing needs its response any more.
      # @param task [#cancel]
      attr_writer :task
      # @param interim [Interim, nil] of the request that has begun it; the decision closes it
      attr_writer :interim
      # @return [Spool, nil] nil: nothing is decided
      attr_reader :spool

      # @param key [Object]
      # @param memory [Integer] bytes of the body in memory
      # @param file [Integer] further bytes in a file
      # @param window [Integer] bytes by which a reader may be behind, beyond those
      # @param max_waiting [Integer] how many may join
      # @param again [Boolean] whether it is the second try of requests whose first one has failed
      # @param generation [Object] the store's
      # @param places [Semaphore] of fetches without readers
      # @param stall [Numeric] seconds after which a body is given up that the fastest reader does not read: a
      #   middleware may have lost it. Servers give up slow clients earlier
      def initialize(memory:, file:, window:, max_waiting:, key: nil, again: false, generation: nil,
        places: Semaphore.new(1), stall: 600)
        @key = key
        @limits = {memory:, file:}
        @window = window
        @max_waiting = max_waiting
        @again = again
        @generation = generation
        @places = places
        @stall = stall
        @lock = Thread::Mutex.new
        @process = Process.pid
        @decided = @released = @entry = @response = @reason = @error = @spool = @gate = nil
        @task = @successor = @interim = nil
        @joined = @readers = @fastest = 0
        @ended = @deserted = @taken = @unattended = @abandoned = @overdue = @concluded = @closed = @hole = false
      end

      # Whether requests may join. Not if one has waited too long for its decision, if nothing needs the response any
      # more, or if the beginning of the body is not kept; nor in a forked child, which has its parent's that never end.
      # @return [Boolean]
      def open? = !@overdue && !gone? && @process == Process.pid

      # @return [Boolean] whether nothing needs the response
      def abandoned? = @abandoned

      # The second try of those that have waited for this one. It may have ended before the last of them asks for it.
      # @yieldreturn [Fill] called once
      # @return [Array(Fill, Boolean)] and whether it was called now
      def successor
        @lock.synchronize do
          next [@successor, false] if @successor && !@successor.dissolved?
          [@successor = yield, true]
        end
      end

      # @return [Boolean] whether it is the second try
      def again? = @again

      # @return [Boolean]
      def decided? = !@decided.nil?

      # @return [Boolean] whether it did not begin
      def dissolved? = @decided == :again

      # @return [Reader, nil] nil: `max_waiting` have joined
      def join
        @lock.synchronize do
          next Reader.new(false, nil) if gone?
          next if @joined >= @max_waiting
          attended
          @readers += 1
          Reader.new((@joined += 1) == 1 && !@deserted)
        end
      end

      # It is begun for no request.
      # @return [Boolean] false: too many go on without one already
      def unattended
        @lock.synchronize do
          @deserted = true
          place?
        end
      end

      # Waits for the decision.
      # @param reader [Reader]
      # @param seconds [Numeric, nil]
      # @return [Symbol, nil]
      def decision(reader, seconds = nil)
        return :again if reader.late?
        @overdue = true and return unless wait(seconds) { @decided }
        (@released && !reader.leads?) ? @released : @decided
      end

      # @param entry [Entry] without its body
      # @param reason [Symbol, nil] why it will not be stored
      # @return [void]
      def share(entry, reason: nil)
        decide do
          @entry = entry
          @reason = reason
          :share
        end
      end

      # @param entry [Entry]
      # @param reason [Symbol, nil] :stale if the app could not tell whether it is still right
      # @return [void]
      def serve(entry, reason: nil)
        @entry, @reason = entry, reason
        decide_and_end(:serve)
      end

      # @param response [Array] status and headers; and a body that the first request reads by itself
      # @param reason [Symbol] why it is not shared
      # @param released [:pass, :retry] what the others do
      # @return [Boolean] false: the first request has left, or there was none: no client has the response
      def give(response, reason:, released: :pass)
        @limits = {memory: 0, file: 0}
        decide do
          @reason = reason
          @ended = @deserted || response.size > 2
          next released if @deserted
          @response = response
          @released = released
          :give
        end
        !@response.nil?
      end

      # The first request has the response from here, and closes its body.
      # @return [Array] as of {#response}
      def take
        @lock.synchronize { @taken = true }
        @response
      end

      # @return [void]
      def refuse = decide_and_end(:pass)

      # The fetch does not begin: all of them ask the cache again.
      # @return [void]
      def dissolve = decide_and_end(:again)

      # Before the decision the requests get the error; after it their response is cut off, unless all of it is there.
      # @param error [Exception]
      # @return [Boolean] whether a request gets the error
      def fail(error)
        change do
          next false if @ended
          @error = error
          @ended = true
          next @readers.positive? if @decided
          @decided = :fail
          @released = :retry unless @again
          @readers.positive?
        end
      end

      # The task has ended, however that was, and reads the body no more.
      # @return [void]
      def conclude
        self.fail(Abandoned.new(ENDED))
        change do
          @concluded = true
          attended
        end
        close_spool
      end

      # Appends to the body. Waits for the fastest reader where the body is not kept.
      # @param chunk [String]
      # @return [self]
      # @raise [Abandoned]
      def <<(chunk)
        raise Abandoned, @hole ? HOLE : UNNEEDED if @ended || @hole
        @hole = true # until the chunk is there: an app may go on after an exception
        append(chunk) unless chunk.empty?
        @hole = false
        self
      end

      # The body is complete.
      # @return [void]
      # @raise [Truncated] if it is not
      def finish
        raise Truncated, HOLE if @hole
        change { @ended = true }
      end

      # @return [Array<String>, nil] the chunks of a complete body that is in memory
      def chunks = (@spool.chunks if @ended && @error.nil?)

      # Yields the chunks, as they come.
      # @param reader [Reader]
      # @return [void]
      # @raise [Truncated]
      def each(reader)
        loop do
          wait { reader.index.nil? || reader.index < @spool.count || @ended }
          place = @lock.synchronize { (reader.index.nil? || reader.index < @spool.count) ? advance(reader) : :end }
          break if place == :end && @error.nil?
          cut_off(reader) if place.nil? || place == :end
          yield @spool.load(place)
        end
      end

      # The request needs it no longer.
      # @param reader [Reader]
      # @return [void]
      def leave(reader)
        body = nil
        change do
          next if reader.index.nil?
          reader.index = nil
          @readers -= 1
          body = desert if reader.leads?
          @abandoned = true if unneeded? || (@readers.zero? && !@ended && !place?)
        end
        @task&.cancel(UNNEEDED) if @abandoned && !@ended
        close_spool
        body.close if body.respond_to?(:close)
      end

      private

      def decide
        change do
          @spool = Spool.new(**@limits)
          @decided = yield
        end
      end

      def decide_and_end(decision)
        decide do
          @ended = true
          attended
          decision
        end
      end

      def append(chunk)
        place = @spool.keep(chunk)
        change { @spool.add(place) }
        keep_pace if @spool.crowded?(@window) || unneeded?
      end

      # @return [#each, #call, nil] the body that was given to the first request, and that it has not got any more
      def desert
        @deserted = true
        return if @taken
        @taken = true
        @response&.at(2)
      end

      # Those that are here may need what those that come can't have.
      def gone? = @abandoned || (!@spool.nil? && (@closed || (@decided == :share && !@spool.whole?)))

      # @return [Boolean] whether it may go on without readers
      def place? = @unattended ||= @places.try_acquire

      def attended
        @places.release if @unattended
        @unattended = false
      end

      # The last one that needs the spool's file closes it.
      def close_spool
        spool = @lock.synchronize do
          next unless @concluded && @readers.zero? && @spool
          @closed = @spool.file?
          @spool
        end
        spool&.close
      end

      def advance(reader)
        return if reader.index.nil?
        place = @spool.place(reader.index)
        reader.index += 1
        if reader.index > @fastest
          @fastest = reader.index
          gate, @gate = @gate, nil if @spool.crowded?(@window)
        end
        place
      ensure
        gate&.close
      end

      # @return [Boolean] whether nothing waits for the rest, and it can't be stored
      def unneeded? = @readers.zero? && !@ended && !@spool.nil? && (@decided == :give || !@spool.whole?)

      # A server gathers small chunks until the next wait, and takes them back for a 500 if none was sent. The fetch may
      # have appended the part and failed at once: then some clients had the part, and others an error in its place.
      def cut_off(reader)
        sleep(0) if reader.index&.positive?
        raise Truncated, "the response was cut off: #{cause(reader)}"
      end

      def cause(reader)
        return "its body failed (#{@error.message})" if @error
        return "the client has left" if reader.index.nil?
        "the client was more than #{@window} bytes behind, and the body is longer than what is kept"
      end

      def keep_pace
        moved = wait(@stall) { trim || unneeded? }
        raise Abandoned, UNNEEDED if !moved || unneeded?
      end

      # Drops what the fastest reader has read, where that is too much.
      # @return [Boolean] whether there is room for another chunk
      def trim
        @spool.trim(@fastest) if @spool.crowded?(@window)
        !@spool.crowded?(@window)
      end

      # Changes what waits depend on, and ends them.
      def change
        value = gate = nil
        @lock.synchronize do
          value = yield
          gate, @gate = @gate, nil
        end
        value
      ensure
        gate&.close
        @interim&.close if @decided
      end

      # Waits until the block is true. It is called with the lock held.
      # @return [Boolean] false: it was not within the time
      def wait(seconds = nil)
        deadline = Clock.now + seconds if seconds
        loop do
          gate = @lock.synchronize do
            return true if yield
            @gate ||= Thread::Queue.new
          end
          left = deadline && deadline - Clock.now
          return false if left && left <= 0
          gate.pop(timeout: left)
        end
      end
    end
  end
end
