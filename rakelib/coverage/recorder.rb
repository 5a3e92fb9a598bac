# frozen_string_literal: true

# Records the lines and branches of lib/ that a process runs. `rake coverage` has each process of the tests load this
# file first, by RUBYOPT. The record is a file of its own per process, written when the process ends:
#
#   RUBYOPT=-r/path/rakelib/coverage/recorder NEVERBLOCK_COVERAGE=/path/tmp/coverage/ruby ruby -Ilib program.rb
#
# It loads nothing but Ruby's own Coverage, so that a program behaves as it does without. A process that a signal kills
# leaves no record. Marshal.load reads a record: {"lib/neverblock/task.rb" => {lines: […], branches: {…}}}.
require "coverage"

Coverage.start(lines: true, branches: true)

library = File.expand_path("../../lib", __dir__)
folder = ENV.fetch("NEVERBLOCK_COVERAGE")

record = lambda do
  files = Coverage.peek_result.select { |path, _| path.start_with?("#{library}/") }
  next if files.empty?
  files.transform_keys! { |path| path.delete_prefix("#{File.dirname(library)}/") }
  path = File.join(folder, "#{Process.pid}-#{Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)}")
  File.binwrite("#{path}.part", Marshal.dump(files))
  File.rename("#{path}.part", "#{path}.record")
rescue SystemCallError
  nil # a process may have no descriptors left, or no right to write here
end

at_exit(&record) # the first one, so it runs last; a forked process inherits it

# exit! skips it.
Process.singleton_class.prepend(Module.new do
  define_method(:exit!) do |*arguments|
    record.call
    super(*arguments)
  end
end)
Kernel.prepend(Module.new do
  private define_method(:exit!) { |*arguments|
    record.call
    super(*arguments)
  }
end)
