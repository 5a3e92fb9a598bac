# frozen_string_literal: true

# Measures what every core call does to a loop, and keeps docs/what-blocks.md:
#
#   ruby script/what_blocks.rb              # measures this Ruby, rewrites its columns
#   ruby script/what_blocks.rb --check      # measures, and fails where the document is wrong; NEVERBLOCK_ENGINE: one engine
#   ruby script/what_blocks.rb flock        # shows the rows with "flock" in their name
#
# All engines that this machine can run are measured, each in a process of its
# own. The columns of other Rubies stay as that Ruby left them in what_blocks/measured.
require "json"
require "rbconfig"
require_relative "../test/support/slow_names"
require_relative "what_blocks/catalogue"
require_relative "what_blocks/report"
require_relative "what_blocks/results"

module WhatBlocks
  # The command.
  class Command
    ROOT = File.expand_path("..", __dir__)
    DOCUMENT = File.join(ROOT, "docs", "what-blocks.md")
    ENGINES = %w[epoll uring poll].freeze
    SERIES = RUBY_VERSION[/\d+\.\d+/]
    UNKNOWN = "Ruby #{SERIES} has no column in docs/what-blocks.md"

    # Looks at a row before it counts as different: on a busy machine some are disturbed again and again.
    LOOKS = 8

    # @param arguments [Array<String>]
    # @return [Boolean] whether all is well
    def call(arguments)
      case arguments
      in [] then write
      in ["--check"] then check
      in [/\A[^-]/ => part] then show(part)
      else abort "usage: ruby script/what_blocks.rb [--check | PART OF A ROW'S NAME]"
      end
    end

    private

    def write
      results = Results.new(SERIES)
      results.replace(RUBY_VERSION, measure_all)
      results.save
      File.write(DOCUMENT, document)
      puts "wrote #{DOCUMENT}"
      true
    end

    def check
      results = Results.new(SERIES)
      engines = ENV["NEVERBLOCK_ENGINE"] ? [ENV["NEVERBLOCK_ENGINE"]] : ENGINES
      problems = results.known? ? engines.flat_map { |engine| differences(results, engine).values } : [UNKNOWN]
      problems << "docs/what-blocks.md is not what its results make" if document != File.read(DOCUMENT)
      puts problems
      puts problems.empty? ? "docs/what-blocks.md is right" : "If that is meant to be so: rake what_blocks, and commit."
      problems.empty?
    end

    # A row counts as different when it is so again and again. What computes waits for nothing, and so is the same on
    # every engine: the check measures it on one.
    def differences(results, engine)
      kinds = (engine == ENGINES.first) ? %i[waits quick computes] : %i[waits quick]
      options = {"KINDS" => kinds.join(","), "EXPECTED" => JSON.generate(results.expected(engine))}
      measured = measure(engine, options:) or return {}
      found = results.differences(engine, measured, except: Catalogue.rows.reject { |row| kinds.include?(row.kind) }.map(&:key))
      (LOOKS - 1).times do
        break if found.empty?
        again = measure(engine, *found.keys, options:)
        found.select! { |key, _sentence| again[key] != results.verdict(key, engine) }
      end
      found
    end

    def show(part)
      measure_all(part).each do |engine, verdicts|
        puts engine, verdicts.map { |key, verdict| "  #{key}: #{verdict}" }
      end
      true
    end

    def document = Report.new(Catalogue.rows, Results.all).to_s

    # @return [Hash{String=>Hash{String=>String}}] verdicts by engine and row
    def measure_all(*parts) = ENGINES.to_h { |engine| [engine, measure(engine, *parts)] }.compact

    # @param options [Hash{String=>String}] more of measure.rb's variables
    # @return [Hash{String=>String}, nil] verdicts; nil if there is no such engine
    def measure(engine, *parts, options: {})
      warn "Ruby #{RUBY_VERSION}, #{engine}:"
      library, program = File.join(ROOT, "lib"), File.join(__dir__, "what_blocks", "measure.rb")
      command = [RbConfig.ruby, "--disable-gems", "-I#{library}", program, *parts]
      answer = JSON.parse(IO.popen({**plain_ruby, **slow_names, **options, "NEVERBLOCK_ENGINE" => engine}, command, &:read))
      return warn("  not to be had here: #{answer["unavailable"]}") if answer["unavailable"]
      raise "#{engine} was asked for, #{answer["engine"]} ran" unless answer["engine"] == engine
      answer["verdicts"]
    end

    # The libraries that came with this Ruby, whatever gems are installed beside it.
    def plain_ruby = {"RUBYOPT" => nil, "RUBYLIB" => nil}

    def slow_names
      milliseconds = (Stage::WAIT * 1000).round
      {"LD_PRELOAD" => NeverBlockTest::SlowNames.library,
       "NEVERBLOCK_TEST_NAMES" => "slow.test=#{milliseconds}:127.0.0.1,#{milliseconds}:-6"}
    end
  end
end

exit(WhatBlocks::Command.new.call(ARGV)) if $PROGRAM_NAME == __FILE__
