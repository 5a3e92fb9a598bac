# frozen_string_literal: true

require "fileutils"
require "json"
require "neverblock"
require "tmpdir"
require_relative "probe"
require_relative "stage"
require_relative "verdict"

module WhatBlocks
  # Measures rows in this process's Ruby and engine, each in a process of its own:
  #
  #   Measurement.new(Catalogue.rows) { |row, verdict, detail| puts row.key, verdict }.call
  #   # => {"IO#gets, empty pipe" => "parks: io_wait", ...}
  #
  # This process stays one without a loop, so that forking from it is clean; a row
  # that hangs or crashes takes only itself along, and all that it started.
  class Measurement
    # Rows measured side by side: they wait nearly all the time.
    SIDE_BY_SIDE = 3

    # Looks at a row before its verdict is believed to be a bad one: one good one is proof, while a machine that stands
    # still for some tenths of a second spoils several.
    LOOKS = 5

    # Seconds until a row counts as hanging, on a machine with other things to do.
    LIMIT = 60

    # The parts of a usual amount of work that are tried, until one takes long enough.
    SCALES = [0.25, 0.5, 1, 2, 4, 8].freeze

    # @param expected [Hash{String=>String}] verdicts by the rows' keys: a look that finds the same is believed
    # @yield [row, verdict, detail] after each look that is believed
    def initialize(rows, expected: {}, &progress)
      @rows = rows
      @expected = expected
      @progress = progress
    end

    # @return [Hash{String=>String}] verdicts by the rows' keys
    def call
      Dir.mktmpdir("what-blocks") do |folder|
        @folder = folder
        quiet, busy = @rows.partition { |row| !row.alone? }
        doubtful = side_by_side(quiet) + busy
        doubtful.each { |row| settle(row) }
        blocking = @rows.select { |row| verdicts[row] == "BLOCKS" && !row.way_out? }
        blocking.each { |row| verdicts[row] = "BLOCKS, offload #{helped?(row) ? "helps" : "does not help"}" }
      end
      @rows.to_h { |row| [row.key, verdicts.fetch(row)] }
    end

    private

    def verdicts = @verdicts ||= {}

    # @return [Array<Row>] rows to measure again, alone
    def side_by_side(rows)
      waiting = Queue.new(rows).close
      doubtful = Queue.new
      workers = Array.new(SIDE_BY_SIDE) do
        Thread.new do
          while (row = waiting.pop)
            verdict, detail = look(row)
            verdict.final? ? believe(row, verdict, detail) : doubtful << row
          end
        end
      end
      workers.each(&:join)
      Array.new(doubtful.size) { doubtful.pop }
    end

    def settle(row)
      verdict, detail = nil
      LOOKS.times do
        verdict, detail = look(row)
        break if verdict.final? || expected?(row, verdict)
      end
      believe(row, verdict, detail)
    end

    # @return [Boolean] whether the loop goes on where the same call is offloaded
    def helped?(row) = looks_at_help(row).times.any? { look(row, offload: true).first.good? }

    def looks_at_help(row) = (@expected[row.key] == "BLOCKS, offload does not help") ? 1 : LOOKS

    def expected?(row, verdict) = @expected[row.key]&.split(",")&.first == verdict.to_s

    def believe(row, verdict, detail)
      verdicts[row] = verdict.to_s
      @progress&.call(row, verdict, detail)
    end

    # A machine that is done too soon gets more to do.
    # @return [Array(Verdict, String)] the verdict, and further remarks
    def look(row, offload: false)
      SCALES.each do |scale|
        answer = look_once(row, offload:, scale:)
        return answer unless row.alone? && answer.first.too_short? && scale < SCALES.last
      end
    end

    def look_once(row, **options)
      reader, writer = IO.pipe
      child = fork { Process.setpgid(0, 0) && observe(row, options, reader, writer) }
      writer.close
      reader.timeout = LIMIT
      answer = reader.gets or return [Verdict.new("crashes"), Process.wait2(child).last.inspect]
      words, conclusive, detail = JSON.parse(answer)
      [Verdict.new(words, conclusive:), detail]
    rescue IO::TimeoutError
      [Verdict.new("hangs"), "no answer within #{LIMIT} s"]
    ensure
      reader.close
      clear_away(child)
    end

    # The row's processes are one group, whether it ended well or not.
    def clear_away(child)
      Process.kill(:KILL, -child)
      Process.wait(child)
    rescue Errno::ESRCH, Errno::ECHILD
      nil # all of them are gone already
    end

    # In the row's own process.
    def observe(row, options, reader, writer)
      reader.close
      $stdin.reopen(File::NULL)
      [$stdout, $stderr].each { |stream| stream.reopen(File::NULL, "w") }
      ENV["TMPDIR"] = Dir.mktmpdir(nil, @folder)
      Thread.report_on_exception = false
      Warning[:experimental] = false
      writer.puts(JSON.generate(report(row, options)))
      exit!(0)
    end

    def report(row, options)
      probe = Probe.new
      perform(row, Stage.new(probe, **options), probe)
      verdict = Verdict.of(row, probe.seen)
      detail = format("%.3f s, longest gap %.3f s, longest sleep %.3f s", probe.seen.elapsed, probe.seen.gap, probe.seen.asleep)
      [verdict.to_s, verdict.final?, [detail, probe.error&.full_message(highlight: false)].compact.join("\n")]
    rescue Exception => error # standard:disable Lint/RescueException
      ["fails with #{error.class}", false, error.full_message(highlight: false)]
    end

    def perform(row, stage, probe)
      NeverBlock.run do |scope|
        scope.spawn { probe.tick }
        scope.spawn do
          stage.instance_exec(&row.body)
          probe.finish
        rescue Exception => error # standard:disable Lint/RescueException
          probe.finish(error)
        end
      end
    end
  end
end
