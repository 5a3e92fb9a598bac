# frozen_string_literal: true

require "minitest"
require "minitest/assertions"
require "neverblock"
require "socket"
require "timeout"
require "tmpdir"

module NeverBlockTest
  # The rows of the table "What happens to an operation when its waiter leaves" of docs/cancellation-and-timeouts.md,
  # each with its operation and a check of the result:
  #
  #   NeverBlockTest::Effects.row "`Queue#pop`", :withdrawn do
  #     queue = Thread::Queue.new
  #     operation(:block) { queue.pop }
  #     check { assert_equal [1], [queue << 1].map(&:pop) }
  #   end
  #
  # The block is evaluated in a {Cell}, anew for each way to leave, and outside of any loop. So the other side is played
  # by plain threads and processes, which the loop's end does not end. A row that names several calls runs for each of
  # them:
  #
  #   NeverBlockTest::Effects.row "`Queue#pop`, `Queue#pop(timeout:)`", :withdrawn, calls: [nil, 60] do |timeout|
  module Effects
    # The ways that end a wait.
    WAYS = %i[timeout cancel raise kill].freeze

    # The second column of the table begins with one of these.
    FATES = {withdrawn: "Withdrawn", waited_for: "Waited for", interrupted: "Interrupted", goes_on: "Goes on"}.freeze

    DOCUMENT = File.expand_path("../../docs/cancellation-and-timeouts.md", __dir__)
    SECTION = /^## What happens to an operation when its waiter leaves\n(.*?)(?=^## |\z)/m

    # @!attribute name
    #   @return [String] the first column
    # @!attribute fate
    #   @return [Symbol] a key of {FATES}
    # @!attribute since
    #   @return [String] the first Ruby on which the operation parks
    # @return [Array] arguments for the block, one run for each
    #   @return [Array] what the block gets, one after the other
    # @!attribute names
    # @return [Boolean] whether it needs a slow resolver, and so a program of its own
    Row = Struct.new(:name, :fate, :since, :names, :calls, :prepare) do
      def here? = Gem::Version.new(RUBY_VERSION) >= Gem::Version.new(since)
    end

    class << self
      # @return [Hash{String=>Row}]
      def rows = @rows ||= {}

      # Adds a row.
      # @raise [ArgumentError] if the name exists already, or the fate doesn't
      def row(name, fate, since: "3.3", names: false, calls: [nil], &prepare)
        raise ArgumentError, "the effect #{name} is there twice" if rows.key?(name)
        raise ArgumentError, "#{name}: no fate is called #{fate}; there are #{FATES.keys.join(", ")}" unless FATES.key?(fate)
        rows[name] = Row.new(name, fate, since, names, calls, prepare)
      end

      # @return [Array<Array<String>>] the columns of each row of the document's table
      def documented
        section = File.read(DOCUMENT)[SECTION, 1].to_s
        section.lines.grep(/\A\| `?[^-]/).map { |line| line.strip.delete_prefix("|").delete_suffix("|").split(/(?<!\\)\|/).map(&:strip) }.drop(1)
      end
    end
  end
end

require_relative "effects/cell"
Dir[File.join(__dir__, "effects", "rows", "*.rb")].sort.each { |file| require file }
