# frozen_string_literal: true

# Runs a test program and ends with it. No process that the program has started survives, whatever its group or session:
#
#   ruby --disable=gems warden.rb FILE COMMAND…
#
# FILE.end tells how the program ended; FILE.left lists processes that were still running some seconds later and were
# killed; FILE.processor has the seconds of processor time of all processes. Standard input controls the warden: "hangs"
# aborts the program, which makes Ruby print its backtraces; the end of standard input, and so of the suite's process,
# terminates the program.
#
# NEVERBLOCK_WARDEN_RUBYOPT is the program's RUBYOPT, which must not apply to the warden. On Linux the warden is a
# subreaper: orphans below it become its children, and none is lost. Elsewhere only the program's process group is
# ended.
class Warden
  # Seconds for an aborted or terminated program to end, and for leftover processes.
  GRACE = Float(ENV.fetch("NEVERBLOCK_TEST_GRACE", "10"))
  PR_SET_CHILD_SUBREAPER = 36
  # prctl(2) by architecture. Fiddle could look it up by name, but isn't part of newer Rubies.
  PRCTL = {"x86_64" => 157, "aarch64" => 167}.freeze

  def initialize(file, command)
    @file = file
    @command = command
  end

  # @return [Boolean] whether the program exited with 0
  def call
    adopt
    environment = {"RUBYOPT" => ENV["NEVERBLOCK_WARDEN_RUBYOPT"], "NEVERBLOCK_WARDEN_RUBYOPT" => nil}
    @pid = Process.spawn(environment, *@command, in: File::NULL, pgroup: true)
    Thread.new { listen }
    status = reap until status&.pid == @pid
    File.write("#{@file}.end", status.to_s)
    clean_up
    File.write("#{@file}.processor", Process.times.then { |times| (times.cutime + times.cstime).to_s })
    status.success? || false
  end

  private

  def adopt
    number = PRCTL[RUBY_PLATFORM[/\A\w+?(?=-)/]] if RUBY_PLATFORM.include?("linux")
    @adopts = number && syscall(number, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0).zero?
  end

  # The program, or an orphan.
  def reap = Process.wait2(-1).last

  def listen
    request = $stdin.gets
    signal((request == "hangs\n") ? :ABRT : :TERM, (request == "hangs\n") ? @pid : -@pid)
    sleep GRACE # real: the program ends
    signal(:KILL, -@pid)
  end

  # Gives ending processes some time, such as a database after its guard has noticed the end of the tests.
  def clean_up
    deadline = now + GRACE
    sleep 0.01 until reaped_all? || now > deadline # real: the program's processes end
    return if reaped_all?
    File.write("#{@file}.left", below(Process.pid).map { |pid| "#{pid} #{title(pid)}\n" }.join)
    until reaped_all?
      below(Process.pid).each { |pid| signal(:KILL, pid) }
      sleep 0.01 # real: the processes end
    end
  end

  # @return [Boolean] whether no process is left below this one
  def reaped_all?
    loop { return false unless Process.wait2(-1, Process::WNOHANG) }
  rescue Errno::ECHILD
    signal(:KILL, -@pid) unless @adopts
    true
  end

  def below(pid)
    children = Dir["/proc/[0-9]*/stat"].filter_map { |path| parent_and_number(path) }.group_by(&:first)
    found = [pid]
    found.each { |parent| found.concat(children.fetch(parent, []).map(&:last)) }
    found - [pid]
  end

  # @return [Array(Integer, Integer), nil] nil for a process that has ended
  def parent_and_number(path)
    number, state, parent = File.read(path).match(/\A(\d+) \(.*\) (\S) (\d+)/m).captures
    [parent.to_i, number.to_i] unless state == "Z"
  rescue SystemCallError
    nil
  end

  def title(pid)
    File.read("/proc/#{pid}/cmdline").tr("\0", " ").strip
  rescue SystemCallError
    "(ended)"
  end

  def signal(name, pid)
    Process.kill(name, pid)
  rescue Errno::ESRCH, Errno::EPERM
    nil # the process has ended, or belongs to another user, and its guard ends it
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

file, *command = ARGV
trap(:INT) {} # the suite decides when the run is over
exit Warden.new(file, command).call
