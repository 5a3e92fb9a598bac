# frozen_string_literal: true

# bin/bench behind its command line: runs benchmarks, prints and keeps what they found.
#
#   Bench::Command.new(ARGV).run      # => exit status
require "fileutils"
require "json"
require_relative "catalogue"
require_relative "child_process"
require_relative "docs_page"
require_relative "failure"
require_relative "load_path"
require_relative "machine"
require_relative "markdown"
require_relative "options"

module Bench
  class Command
    RESULTS = File.join(LoadPath::ROOT, "benchmark", "results")

    # @param arguments [Array<String>]
    # @param output [IO]
    # @param results [String] the folder for what was found
    def initialize(arguments, output: $stdout, results: RESULTS)
      @arguments = arguments
      @output = output
      @results = results
    end

    # @return [Integer] 0 where everything was measured, 2 for a wrong command line;
    #   a bar that is missed is printed and changes nothing
    def run
      options = Options.parse(@arguments)
      return @output.puts(options.usage) || 0 if options.help?
      options.names.each { |name| benchmark(name, options.for(name)) }
      0
    rescue Options::Invalid => error
      warn error.message
      2
    rescue Failure => failure
      warn failure.message
      1
    end

    private

    def benchmark(name, options)
      ChildProcess.flags = options.flags
      machine = Machine.describe.merge("command" => "bin/bench #{@arguments.join(" ")}", "rounds" => options.rounds.to_s)
      @output.puts("# bin/bench #{name}", "", Markdown.list(machine), "")
      report = Catalogue.load(name).new(options).run
      body = [report.markdown, bars(report.bars)].join("\n")
      @output.puts(body)
      keep(name, machine, report, body)
      DocsPage.new.update(name, machine, body, report.charts) if options.docs?
    end

    def bars(bars)
      return "" if bars.empty?
      "Bars: #{bars.count(&:pass?)} of #{bars.size} reached.\n\n" +
        Markdown.table(["bar", "measured", "asked", "", "beside"], bars.map(&:fields))
    end

    def keep(name, machine, report, body)
      FileUtils.mkdir_p(@results)
      files = {"#{name}.md" => "# #{name}\n\n#{Markdown.list(machine)}\n#{body}",
               "#{name}.json" => JSON.pretty_generate(benchmark: name, machine:, **report.to_h, bars: report.bars.map { |bar| {**bar.to_h, pass: bar.pass?} })}
      report.charts.each { |suffix, svg| files["#{name}#{suffix}.svg"] = svg }
      files.each { |file, content| File.write(File.join(@results, file), content) }
      @output.puts("", "Kept in #{@results.delete_prefix("#{LoadPath::ROOT}/")}: #{files.keys.join(", ")}", "")
    end
  end
end
