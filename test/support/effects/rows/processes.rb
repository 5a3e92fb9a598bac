# frozen_string_literal: true

require "open3"

module NeverBlockTest
  module Effects
    # Child processes for the rows below.
    module Children
      def started_child(**options)
        Process.spawn(child_command, **options)
        wait_until("the child") { child }
      end

      # True for an ended child too, until its status is taken.
      def process?(pid)
        Process.kill(0, pid) && true
      rescue Errno::ESRCH
        false
      end

      def check_status(pid = child)
        release_child
        assert_equal 7, Process.wait2(pid).last.exitstatus
        assert_equal Errno::ECHILD, raised { Process.wait(pid) }.class
      end
    end
    Cell.include Children

    row "`Process.wait(pid)`, `Process.wait2(pid)`, `Process::Status.wait(pid)`", :withdrawn,
      calls: [*%i[wait wait2].map { |name| Process.method(name) }, Process::Status.method(:wait)] do |act|
      pid = started_child
      operation(:process) { act.call(pid) }
      check { check_status }
    end

    row "`Process.wait`, `Process::Status.wait` for any child", :interrupted, calls: [Process.method(:wait), Process::Status.method(:wait)] do |act|
      started_child
      operation(:job) { act.call(-1) }
      check { check_status }
    end

    row "`Process.waitall`", :interrupted do
      started_child
      ended = Process.spawn("exit 3")
      operation(:job) { Process.waitall }
      under_way { !process?(ended) }
      check { check_status }
    end

    row "`Process.detach(pid).value`", :goes_on do
      thread = Process.detach(started_child)
      operation(:block) { thread.value }
      check do
        assert_predicate thread, :alive?
        release_child
        assert_equal 7, thread.value.exitstatus
      end
    end

    row "`Process.wait` for a group", :interrupted do
      pid = started_child(pgroup: true)
      operation(:job) { Process.wait(-pid) }
      check { check_status }
    end

    row "`system`", :goes_on do
      command = child_command
      operation(:process) { system(command) }
      under_way { child }
      check { check_status }
    end

    row "a command in backticks", :goes_on do
      command = child_command
      keeps_descriptors
      operation(:io) { `#{command}` }
      under_way { child }
      check { check_status }
    end

    row "`IO.popen` with a block", :withdrawn do
      pid = nil
      operation(:io) { IO.popen("cat", "r+") { |io| (pid = io.pid) && io.read } }
      check do # Ruby doesn't wait for a child in a thread that is being killed, but takes the status of an ended one
        assert_includes [Errno::ECHILD, (NilClass if way == :kill)], raised { Process.wait(pid) }.class
      end
    end

    row "`Open3.popen3` with a block", :withdrawn do
      pid = nil
      operation(:io) { Open3.popen3("cat") { |_, output, _, thread| (pid = thread.pid) && output.read } }
      check { assert_equal Errno::ECHILD, raised { Process.wait(pid) }.class }
    end

    row "`IO#close` of `IO.popen`", :withdrawn do
      io = close_finally(IO.popen(child_command))
      operation(:process) { io.close }
      under_way { child }
      check do
        assert_predicate io, :closed?
        check_status
      end
    end
  end
end
