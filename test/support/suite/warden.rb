# frozen_string_literal: true

# Runs a test program and ends with it, so that no process which the program has started stays, whatever group or session
# that process is in:
#
#   ruby --disable=gems warden.rb FILE COMMAND…
#
# FILE.end is written when the program has ended, with how it ended; FILE.left lists processes that were still there some
# seconds later, and that were killed; FILE.processor has the seconds of processor time of all. Standard input controls it: "hangs" aborts the program, which makes Ruby print its
# backtraces; the end of standard input, and so the end of the process behind it, terminates the program.
#
# NEVERBLOCK_WARDEN_RUBYOPT is the program's RUBYOPT, which is not for the warden itself. On Linux the warden is the
# subreaper of all that begins below it: orphans become its children, and none is lost. Elsewhere the program's process
# group is all that is ended.
class Warden
  # Seconds that an aborted or terminated program has, and what it has left behind.
  GRACE = Float(ENV.fetch("NEVERBLOCK_TEST_GRACE", "10"))
  PR_SET_CHILD_SUBREAPER = 36
  # prctl(2) by architecture. Fiddle, which would know it by name, is no part of newer Rubies.
  PRCTL = {"x86_64" => 157, "aarch64" => 167}.freeze

  def initialize(file, command)
    @file = file
    @command = command
  end

  # @return [Boolean] whether the program ended well
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
    sleep GRACE
    signal(:KILL, -@pid)
  end

  # What is ending, such as a database whose guard has noticed the end of the tests, gets some time.
  def clean_up
    deadline = now + GRACE
    sleep 0.01 until reaped_all? || now > deadline
    return if reaped_all?
    File.write("#{@file}.left", below(Process.pid).map { |pid| "#{pid} #{title(pid)}\n" }.join)
    until reaped_all?
      below(Process.pid).each { |pid| signal(:KILL, pid) }
      sleep 0.01
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
    nil # it has ended, or is another user's and its guard's to end
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

file, *command = ARGV
trap(:INT) {} # the suite says when it is over
exit Warden.new(file, command).call
