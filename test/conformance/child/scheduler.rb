# frozen_string_literal: true

# Replaces the sample scheduler of Ruby's test/fiber: the same classes, over NeverBlock::Scheduler. It adds only methods
# that those tests expect of the sample beyond the interface itself.
$LOAD_PATH.unshift(ENV.fetch("NEVERBLOCK_LIB"))
require "io/nonblock"
require "socket"
require "neverblock"

class Scheduler < NeverBlock::Scheduler
  def initialize(...)
    @sleeping = {}.compare_by_identity
    super
  end

  # Continues elsewhere, and leaves the caller parked for a moment.
  def transfer = block(:transfer, 0.1)

  # The sleeping fibers.
  def waiting = @sleeping

  def kernel_sleep(*)
    @sleeping[Fiber.current] = true
    super
  ensure
    @sleeping.delete(Fiber.current)
  end
end

# Ours has the hooks for IO::Buffer in any case.
class IOBufferScheduler < Scheduler
end

# Raises where a hook must not.
class BrokenUnblockScheduler < Scheduler
  def unblock(blocker, fiber)
    super
    raise "Broken unblock!"
  end
end

# Sleeps where a hook must not, on the thread that unblocks.
class SleepingUnblockScheduler < Scheduler
  def unblock(blocker, fiber)
    super
    sleep(0.1)
  end
end

# Blocks the whole loop for a moment in each sleep.
class SleepingBlockingScheduler < Scheduler
  def kernel_sleep(duration = nil)
    Fiber.blocking { sleep 0.0001 }
    block(:sleep, duration)
    true
  end
end

# Records written bytes. (Ruby 4.0 and later)
class IOScheduler < Scheduler
  # Before version 3 of IO::Buffer the hook got the length, then the offset.
  OFFSET = (defined?(IO::Buffer::VERSION) && IO::Buffer::VERSION >= 3) ? 0 : 1

  def operations = @operations ||= []

  def io_write(io, buffer, *bounds)
    operations << [:io_write, io.fileno, buffer.get_string]
    Fiber.blocking { buffer.write(io, 0, bounds.fetch(OFFSET)) }
  end
end

# Each transfer fails. (Ruby 4.0 and later)
class IOErrorScheduler < Scheduler
  def io_read(...) = -Errno::EBADF::Errno

  def io_write(...) = -Errno::EINVAL::Errno
end
