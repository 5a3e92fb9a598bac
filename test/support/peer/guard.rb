# frozen_string_literal: true

# Stands between a test and a program that the test needs, and ends with either:
#
#   ruby --disable-gems guard.rb FOLDER SIGNAL USER COMMAND…
#
# The program runs in FOLDER, as USER unless that is empty, with its output in FOLDER/log. FOLDER/ended tells how it
# ended. At the end of standard input, and so of the test's process, it gets SIGNAL, and the folder is removed.
require "etc"
require "fileutils"

folder, signal, user, *command = ARGV
unless user.empty?
  account = Etc.getpwnam(user)
  Process.initgroups(user, account.gid)
  Process::GID.change_privilege(account.gid)
  Process::UID.change_privilege(account.uid)
end

pid = Process.spawn(*command, chdir: folder, in: File::NULL, out: "#{folder}/log", err: %i[child out], pgroup: true)
program = Process.detach(pid)
watch = Thread.new { File.write("#{folder}/ended", program.value.to_s) }
$stdin.read
begin
  Process.kill(signal, pid) if program.alive?
  Process.kill(:KILL, -pid) unless program.join(10)
rescue Errno::ESRCH
  nil # it has ended by itself
end
watch.join
FileUtils.rm_rf(folder)
