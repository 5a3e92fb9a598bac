# frozen_string_literal: true

require_relative "../../runtime/monotonic_clock"
require_relative "log_format"
require_relative "log_judge"
require_relative "log_lines"
require_relative "log_parser"

module NeverBlock
  class Cache
    class Traffic
      # Feeds a {Traffic} from logs.
      #
      #   logs = NeverBlock::Cache::Traffic::Logs.new(only: ["/shop"])
      #   logs.read("log/access.log", "log/access.log.1.gz")
      #   puts logs.report
      #
      # Each line may be in one of these formats: common and combined (nginx, Apache, Rack, Puma, NeverBlock), JSON
      # (NeverBlock, nginx, Caddy, lograge), key=value (lograge, Heroku), Rails' own; or in that of `format`. Others are
      # counted. Whether a GET can be cached is an estimate, unless the log has the response's Cache-Control.
      class Logs
        include MonotonicClock

        # Lines in which the first time of a file is looked for.
        FIRST = 200
        # Lines and seconds between two words on the progress.
        STEP, PAUSE = 4_096, 0.5
        # Bytes of the first unknown line that are shown.
        SHOWN = 120
        private_constant :FIRST, :STEP, :PAUSE, :SHOWN

        # @return [Traffic]
        attr_reader :traffic
        # @return [Integer] lines that were read; requests in them; lines in no known format; and lines of more than
        #   64 KiB, which are skipped
        attr_reader :lines, :requests, :unknown, :too_long
        # @return [String, nil] the first line in no known format, with its place
        attr_reader :first_unknown

        # @param traffic [Traffic]
        # @param only [Array<String>] beginnings of paths: other requests are left out; empty: none is
        # @param ignore_params [Array<String>] parameters of queries on which no response depends
        # @param format [String, nil] as nginx' log_format
        # @param progress [IO, nil] a terminal that is told the progress
        # @raise [ConfigurationError]
        def initialize(traffic = Traffic.new, only: [], ignore_params: [], format: nil, progress: nil)
          @traffic = traffic
          @judge = LogJudge.new(traffic, only: list(:only, only), ignore_params: list(:ignore_params, ignore_params))
          @format = LogFormat.new(format) if format
          @progress = progress
          @lines = @requests = @unknown = @too_long = @unfinished = 0
          @first_unknown = nil
          @damaged = []
          @told = now
        end

        # Reads logs, those with the oldest requests first.
        # @param sources [Array<String, IO>] paths, or what can be read; gzip is recognised
        # @return [self]
        # @raise [ConfigurationError] if a file can't be read
        def read(*sources)
          started = sources.to_h { |source| [source, (String === source && begin_of(source)) || Float::INFINITY] }
          sources.sort_by.with_index { |source, at| [started[source], at] }.each { |source| read_one(source) }
          self
        ensure
          @progress&.write("\r\e[K")
        end

        # @return [Report]
        def report = @traffic.report(notes:)

        # @return [Array<String>] what these logs do not tell
        def notes
          ["A log does not have the request's cookies, nor what a response depends on (Vary): pages for one user " \
            "count as pages for all, unless Cache-Control or the user's name is logged.",
            "A client is an address with a user agent, where the log has it: clients behind one address count as one.",
            *trouble]
        end

        private

        def list(name, value)
          return value if Array === value && value.all? { |one| String === one && !one.empty? }
          raise ConfigurationError, "#{name}: #{value.inspect} is not a list of Strings, as in [\"/shop\"]"
        end

        # @return [Float, nil] the time of the first request of a file. A pipe has to be read just once
        def begin_of(path)
          return unless File.file?(path)
          parser = LogParser.new(@format)
          LogLines.open(path) do |lines|
            count = 0
            lines.each do |line|
              requests = [*parser.take(line), *parser.rails.rest]
              time = requests.filter_map(&:at).first
              return time if time || (count += 1) > FIRST
            end
          end
          nil
        end

        def read_one(source)
          parser = LogParser.new(@format)
          name = (String === source) ? File.basename(source) : "standard input"
          unknown = [0, nil]
          LogLines.open(source) do |lines|
            before = @lines
            lines.each { |line| take(line, parser, unknown, lines, before, name) }
            @too_long += lines.too_long
            @damaged << "#{name} is damaged after line #{@lines - before}: #{lines.damage}" if lines.damage
          end
          parser.rails.rest.each { |request| add(request) }
          @unfinished += parser.rails.unfinished
          keep(unknown) unless parser.rails.seen?
        end

        def take(line, parser, unknown, lines, before, name)
          @lines += 1
          tell(lines, name) if (@lines % STEP).zero?
          return if line.empty?
          requests = parser.take(line)
          return requests.each { |request| add(request) } if requests
          unknown[0] += 1
          unknown[1] ||= "#{name}:#{@lines - before}: #{Text.printable(line, limit: SHOWN)}"
        end

        def add(request)
          @requests += 1 if @judge.add(request)
        end

        # Rails' log is full of other lines.
        def keep(unknown)
          @unknown += unknown[0]
          @first_unknown ||= unknown[1]
        end

        def tell(lines, name)
          return if @progress.nil? || now - @told < PAUSE
          @told = now
          part = lines.progress
          @progress.write("\r\e[K#{name}: #{"#{(part * 100).floor} %, " if part}#{Text.number(@lines)} lines")
        end

        def trouble
          notes = []
          notes << "#{amount(@judge.untimed)} had no time: it counts as that of the one before." if @judge.untimed > 0
          notes << "#{amount(@unfinished)} of Rails' log had no line for the end." if @unfinished > 0
          notes << "#{strange} in no known format. The first one, #{@first_unknown}" if @unknown > 0
          notes << "#{Text.count(@too_long, "line")} of more than 64 KiB skipped." if @too_long > 0
          notes.concat(@damaged)
        end

        def strange
          "#{Text.number(@unknown)} of #{Text.count(@lines, "line")} #{(@unknown == 1) ? "is" : "are"}"
        end

        def amount(number) = Text.count(number, "request")
      end
    end
  end
end
