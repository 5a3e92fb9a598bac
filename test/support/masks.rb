# frozen_string_literal: true

require "timeout"
require_relative "runs"
require_relative "virtual_time"

module NeverBlockTest
  # For tests of Thread.handle_interrupt in tasks, on a virtual clock: masks, and the ways in which a masked task is
  # interrupted, all of them after half a second.
  #
  #   class MaskTest < Minitest::Test
  #     include NeverBlockTest::Masks
  #     def test_one = each_kind { |log| mask(NEVER) { sleep(2) && log << :masked } }
  #   end
  module Masks
    include Runs
    include VirtualTime

    NEVER = {Exception => :never}.freeze
    LIFTED = {Exception => :immediate}.freeze
    KINDS = {
      "cancelled" => ->(&block) { NB.spawn(&block).tap { |task| NB.spawn { sleep(0.5) && task.cancel } }.value },
      "timed out" => ->(&block) { NB.spawn { Timeout.timeout(0.5, &block) }.value },
      "timed out with a class" => ->(&block) { NB.spawn { Timeout.timeout(0.5, ArgumentError, &block) }.value },
      "late" => ->(&block) { NB.spawn { NB.move_on_after(0.5, &block) }.value },
      "unwound" => lambda do |&block|
        NB.spawn { NeverBlock.run { NB.spawn { sleep(0.5) && raise("no") } && block.call } }.value
      end
    }.freeze

    # Shorter to write in a test.
    def mask(...) = Thread.handle_interrupt(...)

    # Runs the block for each way to interrupt a task. The block appends what it did to the log: `:masked`, and nothing
    # else.
    # @yieldparam log [Array<Symbol>]
    def each_kind
      KINDS.each do |name, way|
        log = []
        in_run { raised { way.call { |*| yield log } } }
        assert_equal %i[masked], log, name
      end
    end
  end
end
