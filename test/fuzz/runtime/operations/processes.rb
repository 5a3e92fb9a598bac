# frozen_string_literal: true

module NeverBlockFuzz
  module Operations
    # Child processes: each status is received exactly once, also where a wait for it is interrupted.
    module Processes
      private

      def op_child(node, at)
        pid = start_child(*node.args.values_at(:by, :kind, :code, :seconds))
        limit = node.args[:limit]
        case node.args[:wait]
        when :one then limited(at, limit) { reap(pid) }
        when :any then limited(at, limit) { reap(-1) }
        when :status then limited(at, limit) { receive_status(pid) }
        when :detach then limited(at, limit) { detach(pid).join }
        end
      end

      # Several children of one process group, waited for as any of it. The first one leads it, and so lives until all
      # exist.
      def op_children(node, at)
        codes, seconds, waiters, limit = node.args.values_at(:codes, :seconds, :waiters, :limit)
        reader, writer = IO.pipe
        leader = Process.spawn("read line; exit #{codes.first}", in: reader, pgroup: true)
        @ledger.started(leader, codes.first)
        codes.drop(1).each do |code|
          @ledger.started(Process.spawn("sleep #{seconds}; exit #{code}", pgroup: leader), code)
        end
        writer.close
        inside(at) do
          waiters.times { start(nil, at) { |strand| limited(strand, limit) { reap_group(leader) } } }
        end
        reap_group(leader) if node.args[:all]
      ensure
        [reader, writer].compact.each(&:close)
      end

      def reap_group(leader)
        loop do
          found, status = Process.wait2(-leader)
          @ledger.status(found, status)
        end
      rescue Errno::ECHILD
        nil
      end

      # In the child the task goes on alone, as plain Ruby; a new run works.
      def start_child(by, kind, code, seconds)
        pid = if by == :spawn
          Process.spawn("sleep #{seconds}; exit #{code}")
        else
          fork { be_child(kind, code, seconds) }
        end
        @ledger.started(pid, code)
        pid
      end

      def be_child(kind, code, seconds)
        if kind == :run
          value = NeverBlock.run { |scope| scope.spawn { sleep(seconds) && :value }.value }
          exit!(101) unless value == :value
        else
          sleep(seconds)
        end
        (kind == :exit!) ? exit!(code) : exit(code)
      end

      # Another task's wait for any child may have received it: the ledger checks that in the end.
      def reap(pid)
        found, status = Process.wait2(pid)
        @ledger.status(found, status)
      rescue Errno::ECHILD
        nil
      end

      # If there is no such child any more, the status has the pid -1.
      def receive_status(pid)
        status = Process::Status.wait(pid)
        @ledger.status(status.pid, status) if status && status.pid > 0
      end

      def detach(pid)
        helper(nil) { Process.detach(pid).value&.then { |status| @ledger.status(pid, status) } && nil }
      end
    end
  end
end
