# frozen_string_literal: true

require "timeout"
require_relative "runs"

module NeverBlockTest
  # For tests of Thread.handle_interrupt in tasks: masks, and the ways in which a masked task is interrupted.
  #
  #   class MaskTest < Minitest::Test
  #     include NeverBlockTest::Masks
  #     def test_one = each_kind { |log| mask(NEVER) { sleep(0.02) && log << :masked } }
  #   end
  module Masks
    include Runs

    NEVER = {Exception => :never}.freeze
    LIFTED = {Exception => :immediate}.freeze
    KINDS = {
      "cancelled" => ->(&block) { NB.spawn(&block).tap { |task| NB.spawn { sleep(0.005) && task.cancel } }.value },
      "timed out" => ->(&block) { NB.spawn { Timeout.timeout(0.005, &block) }.value },
      "timed out with a class" => ->(&block) { NB.spawn { Timeout.timeout(0.005, ArgumentError, &block) }.value },
      "late" => ->(&block) { NB.spawn { NB.move_on_after(0.005, &block) }.value },
      "unwound" => lambda do |&block|
        NB.spawn { NeverBlock.run { NB.spawn { sleep(0.005) && raise("no") } && block.call } }.value
      end
    }.freeze

    # Shorter to write in a test.
    def mask(...) = Thread.handle_interrupt(...)

    # Keeps the thread busy.
    def compute(seconds)
      deadline = now + seconds
      nil while now < deadline
    end

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
