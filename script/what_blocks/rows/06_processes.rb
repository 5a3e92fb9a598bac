# frozen_string_literal: true

require "io/console"
require "open3"
require "pty"

# Child processes and terminals. Where a call both reads and waits for the end,
# the child closes its output some time before it ends, so that both show.
WhatBlocks::Catalogue.define "Processes and terminals" do
  half = WhatBlocks::Stage::WAIT / 2
  slow = "sleep #{half}; echo abc; exec >&- 2>&-; sleep #{half}"

  waits("Process.wait") { measure(Integer, lasting) { |child| Process.wait(child) } }
  waits("Process.wait", "any child") { measure(Integer, lasting) { |child| Process.wait } }
  waits("Process.wait2") { measure(Array, lasting) { |child| Process.wait2(child) } }
  waits("Process.waitpid", "-1") { measure(Integer, lasting) { |child| Process.waitpid(-1) } }
  waits("Process.waitpid", "a process group") do
    child = lasting(pgroup: true)
    measure(child) { Process.waitpid(-child) }
  end
  waits("Process.waitall") do
    2.times { lasting }
    measure(2) { Process.waitall.size }
  end
  waits("Process::Status.wait") do
    child = lasting
    measure(Process::Status) { Process::Status.wait(child) }
  end
  quick("Process.waitpid", "WNOHANG") do
    child = spawn("sleep 1")
    measure(nil) { Process.waitpid(child, Process::WNOHANG) }
  end
  quick("Process.spawn") { measure(Integer) { Process.spawn("true") } }
  waits("Process.detach", "joined") do
    child = lasting
    measure(Process::Status) { Process.detach(child).value }
  end
  quick("Process.fork") { measure(Integer) { Process.fork { exit!(0) } } }
  waits("Process.fork", "and wait") do
    measure(Integer) { Process.wait(Process.fork { sleep(half * 2) || exit!(0) }) }
  end
  waits("Kernel#system") { measure(true) { system("sleep #{half * 2}") } }
  waits("Kernel#`", "backticks") { measure("abc\n") { `#{slow}` } }
  waits("IO.popen", "read and closed") { measure("abc\n") { IO.popen(slow, &:read) } }
  waits("IO.popen", "written to, slow reader") do
    child = IO.popen("#{shell_pause}; cat", "w", out: File::NULL, **gate)
    clog(child)
    measure(9000) { child.write("x" * 9000) }
  end
  waits("IO.popen", "both ways") do
    child = IO.popen("read line; sleep #{half * 2}; echo $line", "r+")
    measure("abc\n") do
      child.puts "abc"
      child.close_write
      child.read
    end
  end
  waits("IO#close", "popen, child still runs") do
    child = IO.popen("exec >&-; #{shell_pause}", **gate)
    child.read
    measure(nil) { child.close }
  end
  waits("Open3.capture3") { measure("abc\n") { Open3.capture3(slow).first } }
  waits("Open3.capture2e") { measure("abc\n") { Open3.capture2e(slow, stdin_data: "x").first } }
  waits("Open3.popen3") { measure("abc\n") { Open3.popen3(slow) { |_input, output, *| output.read } } }
  waits("Open3.pipeline_r") { measure("abc\n") { Open3.pipeline_r(slow, "cat") { |output, *| output.read } } }

  waits("PTY.spawn", "read") do
    measure("abc\r\n") { PTY.spawn(slow) { |output, *| break output.gets } }
  end
  waits("IO#gets", "terminal, our side") do
    controller, terminal = PTY.open
    later { controller.puts("abc") }
    measure("abc\n") { terminal.gets }
  end
  waits("IO#gets", "terminal, other side") do
    controller, terminal = PTY.open
    later { terminal.puts("abc") }
    measure("abc\r\n") { controller.gets }
  end
  waits("$stdin.gets", "terminal") do
    controller, terminal = PTY.open
    $stdin.reopen(terminal)
    later { controller.puts("abc") }
    measure("abc\n") { $stdin.gets }
  end
  waits("IO#getch", "terminal") do
    controller, terminal = PTY.open
    later { controller.print("a") }
    measure("a") { terminal.getch }
  end
  waits("IO#getpass", "terminal") do
    controller, terminal = PTY.open
    later { controller.puts("abc") }
    measure("abc") { terminal.getpass }
  end
  quick("IO#winsize", "terminal") { measure([0, 0], *PTY.open) { |_controller, terminal| terminal.winsize } }
  quick("Process.kill") { measure(1, spawn("sleep 1")) { |child| Process.kill(:TERM, child) } }
  quick("Process.clock_gettime") { measure(Float) { Process.clock_gettime(Process::CLOCK_MONOTONIC) } }
  quick("Process.daemon", "beside live tasks") { measure(NeverBlock::Error) { raised { Process.daemon } } }
end
