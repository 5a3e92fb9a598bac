# frozen_string_literal: true

# A progress bar. On a terminal it fills in place, and its clock runs; elsewhere a
# long one prints a line each quarter, and each prints one line at its end.
#
#     NeverBlock           [##########..........]    10/20      0.52 s
module Demo
  class Bar
    CELLS = 20
    PAUSE = 0.05 # seconds between two drawings
    LONG = 100 # from this many steps on, a plain screen shows the quarters too

    # @param label [String] up to 20 characters
    # @param done [Integer] steps
    # @param total [Integer]
    # @param seconds [Float]
    # @return [String] a bar as it is drawn
    def self.line(label, done, total, seconds)
      filled = CELLS * done / total
      format("  %-20s [%s%s] %5d/%-5d %6.2f s", label, "#" * filled, "." * (CELLS - filled), done, total, seconds)
    end

    # @param screen [Screen]
    # @param label [String] up to 20 characters
    # @param total [Integer] how many steps there will be
    def initialize(screen, label, total)
      @screen = screen
      @label = label
      @total = total
      @done = 0
      @lock = Mutex.new
      @started = now
      @clock = Thread.new { run_clock } if screen.live?
    end

    # One step is done. Any thread may call it.
    def advance
      @lock.synchronize do
        @done += 1
        @screen.puts(line) if quarter?
      end
    end

    # Leaves the bar in place; further output is printed below it.
    def finish
      return @screen.puts(line) unless @clock
      @clock.kill.join
      draw
      @screen.puts
    end

    private

    # A thread of its own, so that it draws the same for each way of asking.
    def run_clock
      loop do
        @lock.synchronize { draw }
        sleep PAUSE
      end
    end

    def draw = @screen.redraw(line)

    def quarter? = !@screen.live? && @total >= LONG && @done < @total && @done % (@total / 4) == 0

    def line = Bar.line(@label, @done, @total, now - @started)

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
