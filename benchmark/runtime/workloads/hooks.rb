# frozen_string_literal: true

# The scheduler's hooks called directly, as Ruby's core calls them: what they
# allocate is the scheduler's own, since core's part (an IO::Buffer for each read or
# write, for one) is left out.
#
#   class Workloads::NeverBlock < Base
#     include Hooks
#   end
require "io/nonblock"

module Workloads
  module Hooks
    # From version 4 of the scheduler interface on, the last two arguments of a
    # transfer are swapped, and the length is a maximum rather than a minimum.
    SWAPPED = IO::Buffer.const_defined?(:VERSION) && IO::Buffer::VERSION >= 3
    TRANSFER = SWAPPED ? [0, 64].freeze : [64, 0].freeze

    TIMER = 10 # seconds: set and cancelled in each second hop

    # One task parks in `block`, the other wakes it and parks itself: a hop.
    def hook_block(count)
      enter do
        scheduler = Fiber.scheduler
        first = Fiber.current
        second = nil
        rounds = count / 2
        other = start do
          second = Fiber.current
          rounds.times do
            scheduler.block(:bench, nil)
            scheduler.unblock(:bench, first)
          end
        end
        pass until second
        measure(rounds * 2) do
          rounds.times do
            scheduler.unblock(:bench, second)
            scheduler.block(:bench, TIMER)
          end
        end
        join(other)
      end
    end

    # 64 bytes there and back over a socket pair by io_write, io_wait and io_read.
    def hook_transfer(count)
      left, right = UNIXSocket.pair
      [left, right].each { |socket| socket.nonblock = true }
      enter do
        scheduler = Fiber.scheduler
        echo = start do
          buffer = IO::Buffer.new(64)
          count.times do
            scheduler.io_wait(right, IO::READABLE, nil)
            scheduler.io_read(right, buffer, *TRANSFER)
            scheduler.io_write(right, buffer, *TRANSFER)
          end
        end
        buffer = IO::Buffer.new(64)
        measure(count) do
          count.times do
            scheduler.io_write(left, buffer, *TRANSFER)
            scheduler.io_wait(left, IO::READABLE, nil)
            scheduler.io_read(left, buffer, *TRANSFER)
          end
        end
        join(echo)
      end
    ensure
      [left, right].each(&:close)
    end

    # kernel_sleep with nothing to wait for.
    def hook_sleep(count)
      enter do
        scheduler = Fiber.scheduler
        measure(count) { count.times { scheduler.kernel_sleep(0) } }
      end
    end
  end
end
