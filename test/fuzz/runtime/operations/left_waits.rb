# frozen_string_literal: true

module NeverBlockFuzz
  module Operations
    # File#flock, and opening a FIFO: kernel waits that are left without an effect.
    module LeftWaits
      # Ruby 3.3 blocks the whole thread when it opens a FIFO.
      FIFOS = RUBY_VERSION >= "3.4"
      MARK = 24 # bytes
      private_constant :FIFOS, :MARK

      private

      def lock_path(number) = File.join(@folder, "lock #{number}")

      # A file stays open, and locked, in a fiber that a timeout around Fiber#transfer has left.
      def settle_flocks
        return if @plan.uses?(:transfer)
        Dir.glob(lock_path("*")).each do |path|
          free = File.open(path) { |file| file.flock(File::LOCK_EX | File::LOCK_NB) }
          ledger.check(:place_held, free == 0, "a lock of a file is still held")
        end
      end

      # Each task opens the file for itself. The holder of the lock writes into the file, so that a second holder shows.
      # The file is unlocked on the normal path only: a forked child that ends inside the body would unlock it for its
      # parent.
      def op_flock(node, at)
        File.open(lock_path(node.args[:lock]), File::RDWR | File::CREAT | File::BINARY) do |file|
          shared = node.args[:shared]
          expired, value = limited(at, node.args[:limit]) { file.flock(shared ? File::LOCK_SH : File::LOCK_EX) }
          next if expired
          ledger.check(:lock_lost, value == 0) { "flock returned #{value.inspect}" }
          mark = shared ? mark_of(file) : @ledger.number.to_s.rjust(MARK)
          file.pwrite(mark, 0) unless shared
          perform(node.body, at)
          ledger.check(:too_many, mark_of(file) == mark) { "another one has written while a file was locked: #{node.title} in #{at.inspect}" }
          file.flock(File::LOCK_UN) if node.args[:unlock]
        end
      end

      def mark_of(file) = file.size.zero? ? "" : file.pread(MARK, 0)

      # A lock that was waited for in vain isn't given to the waiter later.
      def op_flock_left(node, at)
        files = []
        path = File.join(@folder, "held #{@ledger.number}")
        3.times { files << File.open(path, "w") }
        holder, waiter, other = files
        holder.flock(File::LOCK_EX)
        left, = leave(node, at) { waiter.flock(File::LOCK_EX) }
        ledger.check(:lock_lost, left) { "a lock was given to a second one: #{node.title}" }
        holder.flock(File::LOCK_UN)
        NeverBlock.pass
        ledger.check(:place_held, other.flock(File::LOCK_EX | File::LOCK_NB) == 0) { "a lock was given to one that had left: #{node.title}" }
      ensure
        files&.each(&:close)
      end

      # Runs a block with an endless wait, and makes the task leave it.
      # @return [Array(Boolean, Object)] whether it was left, and the block's value if it was not
      def leave(node, at)
        limit, how = node.args.values_at(:limit, :leave)
        return limited(at, limit) { yield } if how == :timeout
        left = true
        value = nil
        inside(at) do
          strand = start(nil, at) do
            value = yield
            left = false
          end
          (limit > 0.001) ? nap(limit, at) : NeverBlock.pass
          strand.reason = :cancelled
          strand.task.cancel
        end
        [left, value]
      end

      def op_fifo(node, at)
        return unless FIFOS
        path = File.join(@folder, "fifo #{@ledger.number}")
        File.mkfifo(path)
        node.args[:leave] ? leave_fifo(path, node, at) : use_fifo(path, node, at)
      end

      # No task opens the other end, and in the end this one is not open either.
      def leave_fifo(path, node, at)
        left, file = leave(node, at) { File.open(path, (node.args[:end] == :read) ? "rb" : "wb") }
        file&.close
        ledger.check(:fifo_opened, left) { "a FIFO was opened whose other end was not: #{node.title}" }
        ledger.check(:fifo_opened, !open_elsewhere?(path, node.args[:end])) { "a FIFO was opened for one that had left: #{node.title}" }
      end

      # @return [Boolean] whether this end is open anywhere
      def open_elsewhere?(path, which)
        return File.open(path, File::RDONLY | File::NONBLOCK) { |file| file.read_nonblock(1, exception: false) == :wait_readable } if which == :write
        File.open(path, File::WRONLY | File::NONBLOCK).close
        true
      rescue Errno::ENXIO
        false
      end

      # Both ends are opened, each by a task of its own; one may give up at first.
      def use_fifo(path, node, at)
        ends = []
        sent = nothing_sent
        salt = @ledger.number
        received = nil
        inside(at) do
          start(nil, at) do |strand|
            nap(node.args[:seconds], strand)
            ends << (writer = open_fifo(path, "wb", (node.args[:limit] if node.args[:end] == :write), strand))
            send_all(writer, salt, sent, node, strand)
          end
          ends << (reader = open_fifo(path, "rb", (node.args[:limit] if node.args[:end] == :read), at))
          received = receive_all(reader, salt, node, at)
        end
        complete = received == node.args[:size] || ledger.interrupts > 0
        ledger.check(:stream_content, complete) { "#{received} bytes came out of a FIFO: #{node.title}" }
      ensure
        ends&.each { |one| one.close unless one.closed? }
      end

      def open_fifo(path, mode, limit, at)
        expired, file = limited(at, limit) { File.open(path, mode) }
        expired ? File.open(path, mode) : file
      end
    end
  end
end
