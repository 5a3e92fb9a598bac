# frozen_string_literal: true

# Surroundings of one of Ruby's tests. Loaded into the process that runs the tests:
#
#   around = Surroundings.named("neverblock")
#   around.call { the_test }
#
# "neverblock" is under test. "stock" is plain Ruby; the others prove the claim of an exclusion: that a test fails in a
# fiber of the sample scheduler of Ruby's own tests, and in one of async's.
module Surroundings
  module_function

  # @param name [String]
  # @return [Proc] yields in these surroundings and returns the block's value
  def named(name)
    case name
    when "stock" then ->(&test) { test.call }
    when "neverblock" then neverblock
    when "sample" then sample
    when "async" then async
    else raise ArgumentError, "unknown surroundings #{name.inspect}"
    end
  end

  # Keeps the fibers: Ruby 3.4 crashes when a Mutex and the fiber that ended without unlocking it are collected together
  # (`Fiber.new { Mutex.new.lock }.resume`), and some tests leave one locked.
  def kept(test)
    @fibers ||= []
    @fibers << Fiber.current
    test.call
  end

  def neverblock
    $LOAD_PATH.unshift(ENV.fetch("NEVERBLOCK_LIB"))
    require "neverblock"
    ->(&test) { NeverBlock.run { kept(test) } }
  end

  def sample
    load File.join(ENV.fetch("CONFORMANCE_SOURCE"), "test/fiber/scheduler.rb")
    lambda do |&test|
      value = nil
      Fiber.set_scheduler(IOBufferScheduler.new)
      Fiber.schedule { value = kept(test) }
      Fiber.set_scheduler(nil) # runs it to its end
      value
    end
  end

  def async
    require_relative "async_scheduler"
    ->(&test) { Sync { kept(test) } }
  end
end
