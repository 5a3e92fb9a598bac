# Under threads: ruby -Ilib program.rb threads. Under fibers, which were on HOST: ruby -Ilib program.rb
require "neverblock"
require "monitor"
require "socket"
require "timeout"
require "tmpdir"

FOLDER = Dir.mktmpdir
BEGIN_AT = Process.clock_gettime(Process::CLOCK_MONOTONIC)
THREADS = ARGV.first == "threads"

def path(name) = File.join(FOLDER, name)

def raise_in(strand, error) = THREADS ? strand.raise(error) : strand.alive? && strand.fiber.raise(error)

def kill(strand) = THREADS ? strand.kill : strand.alive? && strand.fiber.kill

# Step n begins after n tenths of a second.
def at(number)
  pause = BEGIN_AT + number * 0.1 - Process.clock_gettime(Process::CLOCK_MONOTONIC)
  return if pause < 0
  sleep pause
  value = yield
  puts "step #{number}: #{value.inspect}"
rescue => error
  puts "step #{number}: #{error.inspect}"
end

def program
  # PROGRAM
end

if THREADS
  define_singleton_method(:strand) { |&block| Thread.new(&block) }
  program
else
  NeverBlock.run do |scope|
    define_singleton_method(:strand) { |&block| scope.spawn(&block) }
    program
  end
end
sleep SECONDS if THREADS
