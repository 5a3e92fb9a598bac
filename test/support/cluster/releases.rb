# frozen_string_literal: true

require "fileutils"
require_relative "../operated_app"

module NeverBlockTest
  # A folder as deployment tools make it: releases, and a link to the current one.
  #
  #   releases = Releases.new(folder, workers: 2)
  #   releases.publish("release 1")                     # releases/1/config.ru; current leads there
  #   releases.publish("release 2", broken: "raise 'no way'")
  class Releases
    # @return [String] the path of requests
    def self.path = ""

    # @return [Array<String>] paths, one for each kind of page
    def self.pages = %w[/ /sleep?0.001 /pid /read]

    # @return [Hash] for ServeProcess.open
    def self.process = {}

    # @param folder [String]
    # @param directives [Hash{Symbol=>Object}] of every release
    def initialize(folder, **directives)
      @folder = folder
      @config = {bind: "tcp://127.0.0.1:0", directory: current, **directives}.map { |word, value| "#{word} #{value.inspect}\n" }.join
      @count = 0
    end

    # @return [String] the link
    def current = File.join(@folder, "current")

    # @param name [String] the body of its answers
    # @param broken [String, nil] code that makes loading fail
    # @return [String] the link, which is switched atomically
    def publish(name, broken: nil)
      release = File.join(@folder, "releases", (@count += 1).to_s)
      FileUtils.mkdir_p("#{release}/config")
      write(release, name, broken)
      File.write("#{release}/config/neverblock.rb", @config)
      File.symlink(release, "#{current}.new")
      File.rename("#{current}.new", current)
      current
    end

    private

    def write(release, name, broken) = File.write("#{release}/config.ru", broken || OperatedApp.text(name))
  end
end
