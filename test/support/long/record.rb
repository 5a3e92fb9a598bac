# frozen_string_literal: true

require "json"

module NeverBlockTest
  # Records the results of the long tests for docs/server-tests.md: a line of JSON each, in the file that
  # NEVERBLOCK_LONG_RECORD names.
  #
  #   Record.add("idle", engine: "epoll", connections: 10_000, bytes: 691)
  module Record
    # @param what [String]
    # @param figures [Hash]
    # @return [void]
    def self.add(what, **figures)
      puts "#{what}: #{figures}"
      path = ENV["NEVERBLOCK_LONG_RECORD"] or return
      File.write(path, "#{JSON.generate(what:, **figures)}\n", mode: "a")
    end

    # @param path [String]
    # @return [Array<Hash{String=>Object}>]
    def self.read(path) = File.exist?(path) ? File.readlines(path).map { |line| JSON.parse(line) } : []
  end
end
