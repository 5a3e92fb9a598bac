# frozen_string_literal: true

module NeverBlockFuzz
  module Operations
    # Waits for descriptors, names and signals: IO.select, IO#timeout, a close meanwhile, IO.copy_stream, getaddrinfo, trap.
    module Waits
      private

      def op_select(node, _at)
        data, limit, also = node.args.values_at(:data, :limit, :also)
        IO.pipe do |reader, writer|
          writer.write("x") if data
          started = now
          ready = IO.select([reader], (also ? [writer] : nil), nil, limit)
          expected = [data ? [reader] : [], also ? [writer] : [], []]
          expected = nil unless data || also
          ledger.check(:select_value, ready == expected) { "IO.select returned #{ready.inspect}: #{node.title}" }
          ledger.check(:timeout_early, expected || now - started >= limit) { "IO.select gave up after #{now - started} s: #{node.title}" }
        end
      end

      def op_io_timeout(node, _at)
        reader, writer = open_ends(node.args[:kind])
        reader.timeout = node.args[:limit]
        started = now
        begin
          reader.readpartial(1)
          ledger.fail(:stream_content, "an empty stream was read")
        rescue IO::TimeoutError
          ledger.check(:timeout_early, now - started >= node.args[:limit]) { "IO#timeout of #{node.args[:limit]} passed after #{now - started} s" }
        end
        writer.write("y")
        data = reader.readpartial(5)
        ledger.check(:stream_content, data == "y") { "read #{data.inspect} after an IO::TimeoutError" }
      ensure
        [reader, writer].compact.each(&:close)
      end

      # Every wait for a descriptor that is closed ends with IOError.
      def op_close_waited(node, at)
        reader, writer = open_ends(node.args[:kind])
        outcomes = []
        inside(at) do
          node.args[:waiters].times do
            start(nil, at) do |strand|
              wait_for_close(reader, node.args[:how])
              outcomes << :ended
            rescue IOError
              outcomes << :closed
            end
          end
          nap(0.001, at)
          reader.close
        end
        ledger.check(:close_value, outcomes == [:closed] * node.args[:waiters]) { "the waits for a closed descriptor: #{outcomes.inspect}: #{node.title}" }
      ensure
        [reader, writer].compact.each { |one| one.close unless one.closed? }
      end

      def wait_for_close(reader, how)
        case how
        when :read then reader.readpartial(1)
        when :wait then reader.wait_readable
        else IO.select([reader])
        end
      end

      def op_copy(node, at)
        from, to, size, limit = node.args.values_at(:from, :to, :size, :limit)
        salt = @ledger.number
        source, feed = copy_source(from, salt, size)
        target, drain = copy_target(to, salt)
        kept = Ledger::Kept.new(target.path, "".b, node.title) if to == :file
        received = nil
        inside(at) do
          start(nil, at) { |strand| feed_copy(feed, salt, size) } if feed
          start(nil, at) { |strand| received = receive_all(drain, salt, Plan::Node.new(node.id, :copy, {how: :readpartial}, []), strand) } if drain
          copy_one(source, target, size, limit, kept, salt, at)
        ensure
          [source, target].each(&:close)
        end
        ledger.check(:stream_content, received.between?(0, size)) { "#{received} bytes of #{size} arrived: #{node.title}" } if received
      ensure
        [source, target, feed, drain].compact.each { |one| one.close unless one.closed? }
      end

      # @return [Array(IO, IO)] the source of the copy, and the end that is written to
      def copy_source(kind, salt, size)
        return open_ends(kind) unless kind == :file
        path = File.join(@folder, "source #{salt}")
        File.binwrite(path, content(salt, 0, size))
        [File.open(path, "rb"), nil]
      end

      # @return [Array(IO, IO)] the target of the copy, and the end that is read from
      def copy_target(kind, salt)
        return open_ends(kind).reverse unless kind == :file
        [File.open(File.join(@folder, "target #{salt}"), "wb").tap { |file| file.sync = true }, nil]
      end

      # An interrupted copy closes its end early.
      def feed_copy(feed, salt, size)
        feed.write(content(salt, 0, size))
      rescue Errno::EPIPE, Errno::ECONNRESET
        nil
      ensure
        feed.close
      end

      def copy_one(source, target, size, limit, kept, salt, at)
        @ledger.files << kept if kept
        expired, copied = limited(at, limit) { IO.copy_stream(source, target) }
        ledger.check(:write_value, expired || copied == size) { "copy_stream returned #{copied} of #{size}" }
      ensure
        kept.content = content(salt, 0, File.size(kept.path)) if kept
        ledger.check(:file_content, kept.content.bytesize == size) { "copied #{kept.content.bytesize} of #{size}" } if kept && copied
      end

      # Copies part of a file from a given position, and leaves the file's own position alone.
      def op_copy_part(node, at)
        to, size, offset, length, limit = node.args.values_at(:to, :size, :offset, :length, :limit)
        salt = @ledger.number
        source, = copy_source(:file, salt, size)
        target, drain = copy_target(to, salt)
        whole = [size - offset, length].compact.min.clamp(0..)
        copied = received = nil
        inside(at) do
          start(nil, at) { |strand| received = receive_all(drain, salt, Plan::Node.new(node.id, :copy, {how: :readpartial}, []), strand, offset) } if drain
          _, copied = limited(at, limit) { IO.copy_stream(node.args[:path] ? source.path : source, target, length, offset) }
        ensure
          target.close
        end
        ledger.check(:file_content, source.pos.zero?) { "the position is #{source.pos} after a copy from #{offset} on: #{node.title}" }
        check_part(salt, offset, copied, received || File.size(target.path), whole, (target.path unless drain), node)
      ensure
        [source, target, drain].compact.each { |one| one.close unless one.closed? }
      end

      def check_part(salt, offset, copied, arrived, whole, path, node)
        right = copied ? [copied, arrived] == [whole, whole] : arrived.between?(0, whole)
        ledger.check(:file_content, right) { "copy_stream returned #{copied.inspect}, #{arrived} of #{whole} bytes arrived: #{node.title}" }
        ledger.check(:file_content, path.nil? || File.binread(path) == content(salt, offset, arrived)) { "the wrong part was copied: #{node.title}" }
      end

      def op_resolve(_node, _at)
        addresses = Addrinfo.getaddrinfo("localhost", 80, nil, :STREAM)
        ledger.check(:word_value, addresses.any? { |address| address.ipv4_loopback? || address.ipv6_loopback? }) { "localhost is #{addresses.inspect}" }
      end

      # A trap wakes a task, as only a trap can. One signal wakes all waiters, since simultaneous signals are merged.
      def op_signal(node, at)
        @signalled ||= []
        @signalled << (queue = Thread::Queue.new)
        trap("USR1") { @signalled.each { |one| one << :arrived } }
        pid = Process.spawn("sleep #{node.args[:seconds]}; kill -USR1 $PPID")
        @ledger.started(pid, 0)
        ledger.check(:queue_item, queue.pop == :arrived, "a trap pushed nothing")
        reap(pid)
      end
    end
  end
end
