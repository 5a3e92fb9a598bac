# frozen_string_literal: true

module NeverBlockTest
  module Effects
    # Child processes for the rows below.
    module Children
      def started_child(**options)
        Process.spawn(child_command, **options)
        wait_until("the child") { child }
      end

      def check_status(pid = child)
        release_child
        assert_equal 7, Process.wait2(pid).last.exitstatus
        assert_equal Errno::ECHILD, raised { Process.wait(pid) }.class
      end
    end
    Cell.include Children

    row "`Process.wait(pid)`", :withdrawn do
      pid = started_child
      operation(:process) { Process.wait(pid) }
      check { check_status }
    end

    row "`Process.wait` for any child", :interrupted do
      started_child
      operation(:job) { Process.wait }
      check { check_status }
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
      check do # Ruby takes no status in a thread that is being killed
        assert_equal (way == :kill) ? NilClass : Errno::ECHILD, raised { Process.wait(pid) }.class
      end
    end
  end
end
