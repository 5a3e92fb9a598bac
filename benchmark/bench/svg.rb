# frozen_string_literal: true

# Small charts as SVG: a page of bars per group, or lines.
#
#   Bench::Svg.bars("Runtime", {"queue hop" => {"async epoll" => 1.9e-6}}, colors:, unit: Bench::Units.method(:time))
#   Bench::Svg.lines("Delays", {"async epoll" => {0 => 3500, 500 => 900}}, colors:, x: "ms", y: "requests per second")
module Bench
  module Svg
    WIDTH = 760
    LEFT = 150
    RIGHT = 90
    BAR = 15
    PLOT = 320
    INK = "#222"
    PAPER = "#fff"

    module_function

    # Bars are scaled within their group, since contestants are compared within it.
    # @param title [String]
    # @param groups [Hash{String=>Hash{String=>Float}}] group, then name, then value
    # @param colors [Hash{String=>String}] by name
    # @param unit [#call] value to text
    # @return [String]
    def bars(title, groups, colors:, unit:)
      y = 44
      body = groups.map { |group, values|
        longest = values.values.max
        head = text(12, y += 18, group, weight: "bold")
        rows = values.map { |name, value|
          width = [(WIDTH - LEFT - RIGHT) * value / longest, 1].max
          y += BAR + 4
          text(LEFT - 8, y, name, anchor: "end") + rectangle(LEFT, y - BAR + 3, width, BAR, colors.fetch(name)) +
            text(LEFT + width + 6, y, unit.call(value))
        }
        y += 10
        [head, rows].join
      }
      page(title, y + 12, body.join)
    end

    # @param title [String]
    # @param series [Hash{String=>Hash{Numeric=>Numeric}}] name, then x, then y
    # @param colors [Hash{String=>String}] by name
    # @param x [String] title of the horizontal axis
    # @param y [String] title of the vertical axis
    # @param unit [#call] y value to text
    # @param log [Boolean] whether both axes are logarithmic
    # @return [String]
    def lines(title, series, colors:, x:, y:, unit: :to_s.to_proc, log: false)
      plot = Plot.new(series, log:)
      curves = series.each_with_index.map { |(name, points), i|
        color = colors.fetch(name)
        places = points.map { |point| plot.place(*point) }
        path = %(<polyline fill="none" stroke="#{color}" stroke-width="2" points="#{places.map { |place| place.join(",") }.join(" ")}"/>)
        dots = places.map { |left, top| %(<circle cx="#{left}" cy="#{top}" r="3" fill="#{color}"/>) }
        top = PLOT + 100 + i / 3 * 20
        left = 20 + i % 3 * 240
        [path, dots, rectangle(left, top - 10, 12, 12, color), text(left + 18, top, name)].join
      }
      grid = plot.grid(unit)
      labels = text(WIDTH / 2, PLOT + 84, x, anchor: "middle") + text(12, 46, y)
      page(title, PLOT + 110 + (series.size - 1) / 3 * 20, grid + labels + curves.join)
    end

    def page(title, height, body)
      <<~SVG
        <svg xmlns="http://www.w3.org/2000/svg" width="#{WIDTH}" height="#{height.ceil}" viewBox="0 0 #{WIDTH} #{height.ceil}" font-family="sans-serif" font-size="12" role="img">
        <title>#{escape(title)}</title>
        #{rectangle(0, 0, WIDTH, height.ceil, PAPER)}
        #{text(12, 26, title, weight: "bold", size: 16)}
        #{body}
        </svg>
      SVG
    end

    def text(x, y, string, anchor: "start", weight: "normal", size: 12)
      %(<text x="#{x.round(1)}" y="#{y.round(1)}" text-anchor="#{anchor}" font-weight="#{weight}" font-size="#{size}" fill="#{INK}">#{escape(string)}</text>\n)
    end

    def rectangle(x, y, width, height, color)
      %(<rect x="#{x.round(1)}" y="#{y.round(1)}" width="#{width.round(1)}" height="#{height.round(1)}" fill="#{color}"/>)
    end

    def escape(string) = string.to_s.encode(xml: :text)

    # Where points lie.
    class Plot
      TOP = 60
      LEFT = 90

      def initialize(series, log:)
        @log = log
        points = series.values.flat_map(&:to_a)
        @x = bounds(points.map(&:first))
        @y = bounds([*points.map(&:last), *(0 unless log)])
        @marks = points.map(&:first).uniq.sort
      end

      def place(x, y)
        [(LEFT + share(x, @x) * (WIDTH - LEFT - 40)).round(1), (TOP + PLOT - share(y, @y) * PLOT).round(1)]
      end

      def grid(unit)
        heights = (0..4).map { |i| @log ? @y.first * (@y.last.fdiv(@y.first)**(i / 4.0)) : @y.first + (@y.last - @y.first) * i / 4.0 }
        horizontal = heights.map { |value|
          top = place(@x.first, value).last
          %(<line x1="#{LEFT}" x2="#{WIDTH - 40}" y1="#{top}" y2="#{top}" stroke="#ddd"/>) + Svg.text(LEFT - 6, top + 4, unit.call(value), anchor: "end")
        }
        horizontal.join + @marks.map { |mark| Svg.text(place(mark, @y.first).first, TOP + PLOT + 16, mark, anchor: "middle") }.join
      end

      private

      def bounds(values) = values.minmax.then { |least, most| [least, (most == least) ? least + 1 : most] }

      def share(value, (least, most))
        return (value - least).fdiv(most - least) unless @log
        Math.log(value.fdiv(least)) / Math.log(most.fdiv(least))
      end
    end
    private_constant :Plot
  end
end
