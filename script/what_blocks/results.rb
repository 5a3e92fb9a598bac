# frozen_string_literal: true

require "json"

module WhatBlocks
  # The verdicts on disk, one file for each Ruby series:
  #
  #   results = Results.new("3.4")
  #   results.replace("3.4.5", "epoll" => {"IO#gets, empty pipe" => "parks: io_wait"})
  #   results.save
  #   results.verdict("IO#gets, empty pipe", "epoll") # => "parks: io_wait"
  #
  # A verdict that all engines share is stored once, so that a change of one row
  # is a change of one line.
  class Results
    FOLDER = File.join(__dir__, "measured")

    # @return [Array<Results>] of every series measured so far, oldest first
    def self.all(folder = FOLDER)
      series = Dir.children(folder).grep(/\A\d+\.\d+\.json\z/).map { |name| name.delete_suffix(".json") }
      series.sort_by { |name| name.split(".").map(&:to_i) }.map { |name| new(name, folder) }
    end

    attr_reader :series

    # @param series [String] such as "3.4"
    def initialize(series, folder = FOLDER)
      @series = series
      @path = File.join(folder, "#{series}.json")
      @data = known? ? JSON.parse(File.read(@path)) : {"engines" => [], "rows" => {}}
    end

    def known? = File.exist?(@path)

    # @return [String] the version measured, such as "3.4.5"
    def ruby = @data["ruby"]

    # @return [Array<String>]
    def engines = @data["engines"]

    # @return [Array<String>]
    def keys = @data["rows"].keys

    # @return [String, nil]
    def verdict(key, engine)
      found = @data["rows"][key]
      found.is_a?(Hash) ? found[engine] : found
    end

    # @return [Hash{String=>String}] by row
    def expected(engine) = keys.to_h { |key| [key, verdict(key, engine)] }.compact

    # @return [Hash{Array<String>=>String}] verdicts by the engines that share them
    def verdicts(key)
      engines.group_by { |engine| verdict(key, engine) }.to_h { |words, names| [names, words] }
    end

    # @param version [String] of the Ruby measured
    # @param measured [Hash{String=>Hash{String=>String}}] by engine, then row
    def replace(version, measured)
      rows = measured.values.flat_map(&:keys).uniq.to_h do |key|
        each = measured.transform_values { |verdicts| verdicts[key] }
        [key, (each.values.uniq.size == 1) ? each.values.first : each]
      end
      @data = {"ruby" => version, "engines" => measured.keys, "rows" => rows}
    end

    # What is measured otherwise than stored.
    # @param engine [String]
    # @param measured [Hash{String=>String}]
    # @param except [Array<String>] rows that were not measured
    # @return [Hash{String=>String}] for each row concerned, a sentence
    def differences(engine, measured, except: [])
      ((keys | measured.keys) - except).reject { |key| verdict(key, engine) == measured[key] }.to_h do |key|
        said, seen = verdict(key, engine) || "nowhere", measured[key] || "no more"
        [key, "#{key} (Ruby #{series}, #{engine}): documented #{said}, measured #{seen}"]
      end
    end

    def save = File.write(@path, "#{JSON.pretty_generate(@data)}\n")
  end
end
