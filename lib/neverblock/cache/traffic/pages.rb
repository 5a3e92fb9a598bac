# frozen_string_literal: true

require_relative "page"
require_relative "sample"

module NeverBlock
  class Cache
    class Traffic
      # The URLs, a bounded number of them.
      #
      #   pages = Pages.new(limit: 100_000)
      #   pages.fetch("/report", 1000.0, 3600).gets += 1
      #   pages.best.first.url    # => "/report"
      #
      # If there are too many, first those go whose responses would be stale; the best of them are kept for the report.
      # Then the sample is halved: see {Traffic}.
      # @api private
      class Pages
        # The part of all pages that is free after there were too many, and the part that stays as it is asked most.
        FREE, HOT = 8, 4
        # Pages that are kept for the report though they are over.
        REMEMBERED = 200
        # Halvings; by then there are 2**60 URLs.
        MOST_HALVINGS = 60
        private_constant :FREE, :HOT, :REMEMBERED, :MOST_HALVINGS

        # @param limit [Integer]
        def initialize(limit:)
          @limit = limit
          @pages = {}
          @remembered = {}
          @sample = Sample.new
          @salt = Random.urandom(16)
        end

        # @param url [String]
        # @param at [Float] the time of a request
        # @param window [Numeric] seconds that requests without a response for everybody count
        # @return [Page, nil] nil: it is not in the sample
        def fetch(url, at, window)
          id = id(url)
          page = @pages[id]
          return page if page
          return unless @sample.include?(id)
          make_room(at, window) if @pages.size >= @limit
          @pages[id] = add(id, url) if @sample.include?(id)
        end

        # @param url [String]
        # @return [Page, nil]
        def find(url) = @pages[id(url)]

        # @return [Array<Page>] all for the report, in no order
        def best = @pages.values.concat(@remembered.values)

        # @return [Integer]
        def size = @pages.size + @remembered.size

        # @return [Boolean]
        def sampled? = @sample.partial?

        private

        # Ruby hashes with a key of the process.
        def id(url) = [@salt, url].hash

        def add(id, url)
          page = @remembered.delete(id) or return Page.new(url, weight: @sample.weight)
          page.weight = @sample.weight
          page
        end

        def make_room(at, window)
          enough = @limit - (@limit / FREE).clamp(1, @limit)
          @pages.delete_if { |id, page| page.over?(at, window) && remember(id, page) }
          MOST_HALVINGS.times do
            break if @pages.size <= enough
            halve
          end
        end

        def remember(id, page)
          page.forget
          @remembered[id] = page if page.gain > 0
          trim if @remembered.size > 2 * REMEMBERED
          true
        end

        def trim = @remembered = @remembered.max_by(REMEMBERED) { |_, page| page.gain }.to_h

        # A page that is asked often has a share in the figures for which no other one can stand.
        def halve
          hot = @pages.each_value.map(&:gets).sort!.fetch(-@limit / HOT) # at most a quarter is asked more often
          @pages.delete_if do |id, page|
            next false if page.gets > hot
            next true unless @sample.stays?(id)
            page.weight *= 2
            false
          end
          @sample.halve
        end
      end
    end
  end
end
