# frozen_string_literal: true

# Shows how far a benchmark is: one line that is redrawn on a terminal, a line each
# tenth elsewhere.
#
#   progress = Bench::Progress.new(120)
#   progress.step("round 1/5, queue hop, threads") { measure }
require_relative "clock"

module Bench
  class Progress
    CELLS = 24

    # @param total [Integer] how many steps there will be
    # @param output [IO] where to
    def initialize(total, output: $stderr)
      @total = total
      @output = output
      @done = 0
      @started = Clock.now
    end

    # @param label [String] the current step
    # @param of [Integer] how many steps it is at once
    # @return [Object] the block's value
    def step(label, of: 1)
      draw(label) if @output.tty?
      yield
    ensure
      before = @done
      @done += of
      tenth = [@total / 10, 1].max
      draw(label) if !@output.tty? && (before / tenth != @done / tenth || @done == @total)
    end

    # Clears the line.
    def finish
      @output.print("\r\e[K") if @output.tty?
    end

    private

    def draw(label)
      filled = CELLS * @done / @total
      line = format("[%s%s] %3d %%%s  %s", "#" * filled, "." * (CELLS - filled), 100 * @done / @total, remaining, label)
      @output.tty? ? @output.print("\r\e[K#{line[0, columns - 1]}") : @output.puts(line)
    end

    def remaining
      return "" if @done.zero?
      seconds = (Clock.now - @started) / @done * (@total - @done)
      format("  %d:%02d left", seconds / 60, seconds % 60)
    end

    def columns
      require "io/console"
      (@output.winsize.last if @output.respond_to?(:winsize)).then { |width| (width && width > 20) ? width : 80 }
    end
  end
end
