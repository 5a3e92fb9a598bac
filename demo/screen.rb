# frozen_string_literal: true

# What the demo prints: lines that change in place on a terminal, and plain lines,
# each printed once, when the output is a pipe or a file.
#
#   screen = Demo::Screen.new($stdout)
#   screen.title "Twenty requests"
#   bar = screen.bar("NeverBlock", 20)
#   20.times { bar.advance }
#   bar.finish("1.0 s")
require "io/console"
require_relative "bar"

module Demo
  class Screen
    # @param output [IO]
    def initialize(output)
      @output = output
      @output.sync = true
      @live = output.tty? && ENV["TERM"] != "dumb"
      @below = 0 # lines of the picture that the next one replaces
    end

    # @return [Boolean] whether lines can change in place
    def live? = @live

    # @return [Integer] columns
    def width = (@live && IO.console&.winsize&.last&.nonzero?) || 80

    # @return [Integer] lines that fit
    def height = (@live && IO.console&.winsize&.first&.nonzero?) || 24

    def title(text)
      puts
      puts (@live && !ENV["NO_COLOR"]) ? "\e[1m#{text}\e[0m" : text
    end

    def puts(text = "") = @output.puts(text)

    # Text folded at the width of the screen.
    # @param indent [Integer] spaces before each line
    def paragraph(text, indent: 2)
      text.gsub(/(.{1,#{width - indent - 1}})(?:\s+|\z)/, "#{" " * indent}\\1\n").each_line { |line| @output.print(line) }
    end

    # A progress bar for something that happens `total` times.
    # @return [Bar]
    def bar(label, total) = Bar.new(self, label, total)

    # Replaces the line that is being written; only for live screens.
    def redraw(line) = @output.print("\r\e[K", line[0, width - 1])

    # Shows lines in the place of those shown before; only for live screens.
    # @param lines [Array<String>]
    def picture(lines)
      @output.print("\e[#{@below}A") if @below > 0
      lines.each { |line| @output.print("\r\e[K", line[0, width - 1], "\n") }
      @below = lines.size
    end

    # Further output is printed below the picture.
    def picture_done = @below = 0

    # @param rows [Array<Array<String>>] the first is the head; columns but the
    #   first are aligned to the right
    def table(rows)
      widths = rows.transpose.map { |column| column.map(&:size).max }
      rows.each_with_index do |row, index|
        cells = row.each_with_index.map { |cell, at| at.zero? ? cell.ljust(widths[at]) : cell.rjust(widths[at]) }
        puts "  #{cells.join("  ")}".rstrip
        puts "  #{widths.map { |size| "-" * size }.join("  ")}" if index.zero?
      end
    end
  end
end
