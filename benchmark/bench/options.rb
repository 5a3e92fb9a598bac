# frozen_string_literal: true

# The command line of bin/bench.
#
#   Bench::Options.parse(%w[runtime --rounds 7 --only queue]).rounds     # => 7
require "optparse"
require_relative "catalogue"
require_relative "failure"

module Bench
  class Options
    NAMES = Catalogue.names.freeze
    QUICK_ROUNDS = 2

    # A command line that cannot be followed; its message says why.
    class Invalid < StandardError
    end

    # @param arguments [Array<String>]
    # @return [Options]
    # @raise [Invalid]
    def self.parse(arguments)
      new.tap { |options| options.send(:read, arguments.dup) }
    end

    # @return [Array<String>] the benchmarks to run
    attr_reader :names
    # @return [String, nil] another checkout, whose library is measured too
    attr_reader :before
    # @return [Float, nil] seconds of a measurement
    attr_reader :seconds
    # @return [Integer, nil] of each contestant to the database
    attr_reader :connections

    def initialize
      @names = []
      @only = []
      @contestants = []
      @rows = []
      @yjit = false
    end

    # @return [Array<String>] for each measured ruby
    def flags = (@yjit || @names.all? { |name| Catalogue.yjit?(name) }) ? ["--yjit"] : []

    # @param name [String, nil] of a benchmark
    # @return [Integer]
    def rounds(name = @names.first) = @rounds || (quick? ? QUICK_ROUNDS : Catalogue.rounds(name))

    def quick? = @quick || false

    def help? = @help || false

    # @return [Boolean] whether system calls and calls of methods are counted too
    def profile? = @profile || false

    # @return [Boolean] whether the figures go to docs/benchmarks/NAME.md too
    def docs? = @docs || false

    # @param row [String]
    # @return [Boolean]
    def wants?(row) = @only.empty? || @only.any? { |word| row.downcase.include?(word.downcase) }

    # @param rows [Array<#id, #title>] of a benchmark
    # @yieldparam row [Object] whether it is measured where no rows are named
    # @return [Array] the selected ones
    # @raise [Failure] if a given name has no row
    def choose(rows, &unasked)
      unknown = @rows - rows.map(&:id)
      raise Failure, "There is no row \"#{unknown.first}\"; there are: #{rows.map(&:id).join(", ")}." if unknown.any?
      named = @rows.empty? ? rows.select(&unasked || :itself) : rows.select { |row| @rows.include?(row.id) }
      named.select { |row| wants?("#{row.id} #{row.title}") }
    end

    # @param name [String]
    # @return [Boolean]
    def wants_contestant?(name) = @contestants.empty? || @contestants.any? { |word| name.include?(word.tr("_", " ")) }

    # @param name [String] of a benchmark
    # @return [Options] the same, for that one alone
    def for(name) = dup.tap { |copy| copy.instance_variable_set(:@names, [name]) }

    # @return [String]
    def usage = parser.help

    private

    def read(arguments)
      @names = parser.parse(arguments)
      return if help?
      raise Invalid, "Name a benchmark: #{NAMES.join(", ")}, or all." if @names.empty?
      @names = NAMES if @names == ["all"]
      unknown = @names - NAMES
      raise Invalid, "There is no benchmark called \"#{unknown.first}\"; there are: #{NAMES.join(", ")}, and all." if unknown.any?
    rescue OptionParser::ParseError => error
      raise Invalid, "#{error.message.capitalize}. See bin/bench --help."
    end

    def parser
      OptionParser.new do |parser|
        parser.banner = "Usage: bin/bench NAME [options]      NAME is #{NAMES.join(", ")} or all"
        parser.on("--rounds N", Integer, "how often everything is measured (#{NAMES.map { |name| "#{name} #{Catalogue.rounds(name)}" }.join(", ")})") do |number|
          raise OptionParser::InvalidArgument, "#{number}, where 1 or more is needed" if number < 1
          @rounds = number
        end
        parser.on("--only WORDS", Array, "only the rows with one of these words, comma-separated") { |words| @only = words }
        parser.on("--contestants WORDS", Array, "only those with one of these words in their names: neverblock_epoll,nginx") { |words| @contestants = words }
        parser.on("--before FOLDER", "measure the library of another compiled checkout too (runtime, servers, database, cost, tenants)") do |folder|
          raise OptionParser::InvalidArgument, "#{folder} has no compiled library; run bundle exec rake compile there" if Dir[File.join(folder, "lib/neverblock/**/*.so")].empty?
          @before = File.expand_path(folder)
        end
        parser.on("--rows NAMES", Array, "only these rows, by their exact names: hello_32,chunks") { |names| @rows = names }
        parser.on("--seconds S", Float, "how long a measurement takes (rails_sqlite: 3, servers, proxied, cache: 2, rails, http_ratios: 1, database, mysql: 0.5, runtime, cost: 0.3, offload_sizes: 0.02)") do |seconds|
          raise OptionParser::InvalidArgument, "#{seconds}, where more than 0 is needed" unless seconds.positive?
          @seconds = seconds
        end
        parser.on("--connections N", Integer, "how many each contestant has to the database (cost: 8)") do |number|
          raise OptionParser::InvalidArgument, "#{number}, where 1 or more is needed" if number < 1
          @connections = number
        end
        parser.on("--profile", "count system calls and calls of methods too, in passes of their own (cost)") { @profile = true }
        parser.on("--quick", "few rounds and short ones: shows the shape, not the figures") { @quick = true }
        parser.on("--yjit", "with Ruby's compiler in every measured process") { @yjit = true }
        parser.on("--docs", "put the figures into docs/benchmarks/NAME.md too") { @docs = true }
        parser.on("-h", "--help") { @help = true }
      end
    end
  end
end
