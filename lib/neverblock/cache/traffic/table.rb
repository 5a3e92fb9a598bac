# frozen_string_literal: true

require_relative "text"

module NeverBlock
  class Cache
    class Traffic
      # A {Report} for people.
      #
      #   Table.new(report).to_s
      # @api private
      class Table
        # Columns of a URL.
        WIDTH = 80
        # What the reasons mean.
        REASONS = {
          status: "status that is not stored", unknown_status: "no status", no_freshness: "no lifetime declared",
          no_cache: "no-cache", no_store: "no-store", private: "private", set_cookie: "response sets a cookie",
          cookie: "request has a cookie", authorization: "request has an Authorization, or a user",
          client_certificate: "request has a client certificate", credential_header: "request has a token in a header",
          token: "token in the query", bypass: "a cache in front did not store it", vary_any: "Vary: *",
          vary_credentials: "Vary on cookies or credentials", key: "unusual URL", unusual_url: "unusual URL",
          body: "request has a body", request_no_store: "request says no-store",
          forwarded: "untrusted Forwarded fields",
          content_range: "part of a response", sendfile: "sent by the server in front", other: "other reasons"
        }.freeze
        private_constant :WIDTH, :REASONS

        # @param report [Report]
        def initialize(report)
          @report = report
        end

        # @return [String]
        def to_s = [head, shares, savings, urls, reasons, refused, notes].compact.join("\n\n") << "\n"

        private

        def head
          from, to = @report.from, @report.to
          return "#{Text.count(@report.requests, "request")}#{", at unknown times" if @report.requests > 0}" unless from
          span = [from, to].map { |time| Time.at(time).utc.strftime("%Y-%m-%d %H:%M") }.uniq
          "#{Text.count(@report.requests, "request")} in #{Text.duration(to - from)}, #{span.join(" to ")} UTC. " \
            "A response is used for #{Text.duration(@report.window)} where none is declared."
        end

        def shares
          gets, cacheable, repeats = @report.gets, @report.cacheable, @report.repeats
          rows = [
            ["GETs", count(gets), share(gets, @report.requests, "of requests")],
            ["that can be cached", count(cacheable), share(cacheable, gets, "of GETs")],
            ["that repeat", estimate(repeats), share(repeats, cacheable, "of those"), share(repeats, gets, "of GETs")],
            ["that repeat from the same client", estimate(@report.same_client),
              share(@report.same_client, repeats, "of those"), share(@report.same_client, gets, "of GETs")]
          ]
          rows.map { |row| format("%-34s %11s  %s", row[0], row[1], row.drop(2).join("  ")).rstrip }.join("\n")
        end

        def savings
          bytes = @report.bytes || {}
          rows = [["a shared cache would have answered", @report.shared_repeats, bytes[:shared_cache]],
            ["browsers would have answered", @report.same_client, bytes[:browsers]]]
          rows.map { |says, number, size| saved(says, number, size) }.join("\n")
        end

        def saved(says, number, size)
          text = format("%-34s %11s  %s", says, estimate(number), share(number, @report.gets, "of GETs"))
          return text unless size
          "#{text}, #{Text.bytes(size)} of #{Text.bytes(@report.bytes[:gets])}"
        end

        def urls
          return if @report.urls.empty?
          rows = @report.urls.map { |row| line(row, count(row[:same_client])) }
          ["What would gain most", "       GETs    repeat  same client  URL", *rows].join("\n")
        end

        def reasons
          return if @report.reasons.empty?
          rows = @report.reasons.map do |row|
            format("  %9s %9s  %s", count(row[:gets]), estimate(row[:repeats]), words(row[:reason]))
          end
          ["What keeps GETs from being shared, and how many of them would repeat if it did not",
            "       GETs    repeat  because", *rows].join("\n")
        end

        def refused
          return if @report.refused_urls.empty?
          rows = @report.refused_urls.map { |row| "#{line(row)}  (#{words(row[:reason])})" }
          ["Where it does most", "       GETs    repeat  URL", *rows].join("\n")
        end

        def line(row, *more)
          more = more.map { |text| format("%12s", text) }
          numbers = [format("  %9s %9s", count(row[:gets]), count(row[:repeats])), *more].join(" ")
          "#{numbers}  #{Text.printable(row[:url], limit: WIDTH)}"
        end

        def notes
          return if @report.notes.empty?
          ["What this report does not know", *@report.notes.map { |note| "- #{note}" }].join("\n")
        end

        def words(reason) = REASONS.fetch(reason) { reason.to_s.tr("_", " ") }

        def share(part, whole, of) = "#{format("%7s", Text.percent(@report.percent(part, whole)))} #{of}"

        def count(number) = Text.number(number)

        # Numbers that a sample stands behind.
        def estimate(number) = @report.sampled? ? "~#{count(number)}" : count(number)
      end
    end
  end
end
