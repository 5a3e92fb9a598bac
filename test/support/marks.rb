# frozen_string_literal: true

require_relative "suite/declarations"

module NeverBlockTest
  # Marks for single tests; a whole file declares the same in a comment at its top (test/support/suite/declarations.rb).
  #
  #   slow "collects garbage at each allocation"
  #   def test_every_wait_under_gc_stress
  #
  #   chaos "random programs"      # slow as well, and on one Ruby only
  #   def test_random_programs
  #
  # `bin/test` leaves slow tests out. NEVERBLOCK_TEST_FAST and NEVERBLOCK_TEST_CHAOS=no do the same for a run by hand.
  module Marks
    # Seconds. A test that takes longer needs a mark.
    LIMIT = 0.25

    # @param reason [String] why the next test is slow
    # @return [void]
    def slow(reason) = mark(:slow, reason)

    # @param reason [String] why the next test runs differently each time
    # @return [void]
    def chaos(reason) = mark(:chaos, reason)

    # @return [Hash{Symbol=>Array}] the tests of this class or module alone, each with its mark and the reason
    def marks = @marks ||= {}

    # @api private
    def method_added(name)
      super
      return unless (waiting = @waiting_mark) && name.start_with?("test_")
      marks[name] = waiting
      @waiting_mark = nil
    end

    private

    def mark(kind, reason)
      raise ArgumentError, "#{kind} needs a reason" if reason.to_s.empty?
      @waiting_mark = [kind, reason]
    end

    class << self
      # @param test_class [Class]
      # @param name [String, Symbol] of a test
      # @return [:slow, :chaos, nil] how the test, or its file, is marked
      def of(test_class, name)
        owner = test_class.instance_method(name).owner
        return owner.marks[name.to_sym].first if owner.respond_to?(:marks) && owner.marks.key?(name.to_sym)
        declared = declarations(test_class) or return
        if declared.chaos then :chaos
        elsif declared.slow then :slow
        end
      end

      # @return [Boolean] whether this run includes tests with that mark
      def wanted?(mark)
        return false if mark == :chaos && ENV["NEVERBLOCK_TEST_CHAOS"] == "no"
        mark.nil? || ENV["NEVERBLOCK_TEST_FAST"].to_s.empty?
      end

      # @return [String, nil] the path of the file that defines the class
      def file(test_class)
        test_class = test_class.superclass until test_class.name || test_class == Minitest::Test
        Object.const_source_location(test_class.name)&.first
      end

      private

      def declarations(test_class)
        path = file(test_class)
        Suite::Declarations.of(path) if path && File.file?(path)
      end
    end

    # Leaves out the tests that this run doesn't include.
    module Chosen
      def runnable_methods = super.select { |name| Marks.wanted?(Marks.of(self, name)) }
    end
  end
end

Minitest::Test.extend(NeverBlockTest::Marks)
Minitest::Test.singleton_class.prepend(NeverBlockTest::Marks::Chosen)
