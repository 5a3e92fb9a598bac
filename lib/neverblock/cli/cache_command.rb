# frozen_string_literal: true

require "json"
require "optparse"

module NeverBlock
  class CLI
    # neverblock cache report: reads logs, and tells whether a cache would help.
    #
    #   CacheCommand.new(["report", "log/access.log"]).call   # => 0
    # @api private
    class CacheCommand
      # No line of the logs could be read.
      class UnknownFormatError < StandardError
        include Error
      end

      USAGE = "Usage: neverblock cache report [options] [FILE...]"
      NOTES = <<~TEXT.chomp
        FILE is a log, gzipped or not; "-" or none: standard input. Each line may be in
        the common or combined format (nginx, Apache, Puma, NeverBlock), JSON, key=value
        (lograge, Heroku) or Rails' own.
      TEXT
      private_constant :USAGE, :NOTES

      # @param arguments [Array<String>] without "cache"
      # @param out [IO]
      # @param err [IO] is told the progress, if it is a terminal
      # @param input [IO]
      def initialize(arguments, out: $stdout, err: $stderr, input: $stdin)
        @arguments = arguments
        @out = out
        @err = err
        @input = input
        @reading = {only: [], ignore_params: []}
        @traffic = {}
      end

      # @return [Integer] the exit status
      # @raise [ConfigurationError]
      # @raise [UnknownFormatError]
      def call
        files = parse or return OK
        require_relative "../cache"
        logs = Cache::Traffic::Logs.new(Cache::Traffic.new(**@traffic), **@reading, progress: (@err if @err.tty?))
        logs.read(*sources(files))
        check(logs)
        report = logs.report
        @out.puts(@json ? JSON.generate(report.to_h) : report.to_s)
        OK
      end

      private

      # @return [Array<String>, nil] nil: the question is answered
      def parse
        rest = options.parse(@arguments)
        return @out.puts(@answer) if @answer
        word, *files = rest
        return files if word == "report"
        raise ConfigurationError, "#{word ? "there is no command cache #{word}" : "no command given"}. " \
          "neverblock cache report tells from logs whether a cache would help"
      rescue OptionParser::ParseError => error
        raise ConfigurationError, "#{error.message}. neverblock cache report --help lists the options", cause: nil
      end

      def options
        OptionParser.new(USAGE, 26) do |parser|
          parser.separator("")
          parser.on("--only PATH", "requests whose path begins so; may be repeated") { |path| @reading[:only] << path }
          parser.on("--ignore-params NAMES", Array, "parameters on which no response depends,",
            "as in utm_source,utm_medium") { |names| @reading[:ignore_params].concat(names) }
          parser.on("--window SECONDS", "how long a response is used (3600)") do |text|
            @traffic[:window] = number(text, "--window")
          end
          parser.on("--format FORMAT", "nginx' log_format, if it is one of your own") do |text|
            @reading[:format] = text
          end
          parser.on("--max-urls NUMBER", "URLs kept in memory (100000)") do |text|
            @traffic[:max_urls] = number(text, "--max-urls")
          end
          parser.on("--max-clients NUMBER", "pairs of URL and client kept in memory (500000)") do |text|
            @traffic[:max_clients] = number(text, "--max-clients")
          end
          parser.on("--json", "the numbers as JSON") { @json = true }
          parser.on("-h", "--help", "this text") { @answer = "#{parser}\n#{NOTES}" }
        end
      end

      def number(text, option)
        return text.to_i if text.match?(/\A[1-9][0-9]{0,8}\z/)
        raise ConfigurationError, "#{option}: #{text.inspect} is not a whole number, 1 or more"
      end

      def sources(files)
        if files.empty?
          return [@input] unless @input.tty?
          raise ConfigurationError, "no log given. For example: neverblock cache report log/access.log"
        end
        files.map { |file| (file == "-") ? @input : file }
      end

      def check(logs)
        return if logs.requests > 0 || logs.unknown.zero?
        raise UnknownFormatError, "none of #{logs.lines} lines is in a known format. The first one, " \
          "#{logs.first_unknown}\nneverblock cache report --help lists the formats"
      end
    end
  end
end
