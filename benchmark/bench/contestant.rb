# frozen_string_literal: true

# One of those that are measured: a library with the environment that selects its
# engine, and the checkout that its code is in.
#
#   Bench::Contestant.all.map(&:name)      # => ["neverblock epoll", ..., "threads"]
#   Bench::Contestant.named("async uring").library  # => "async"
require_relative "load_path"

module Bench
  Contestant = Data.define(:name, :library, :environment, :color, :root) do
    def initialize(name:, library:, environment:, color:, root: LoadPath::ROOT) = super

    # @return [Array<Contestant>] all that this machine can run; NeverBlock's default engine first
    def self.all
      @all ||= [
        new("neverblock epoll", "neverblock", {"NEVERBLOCK_ENGINE" => "epoll"}, "#c0392b"),
        new("neverblock uring", "neverblock", {"NEVERBLOCK_ENGINE" => "uring"}, "#e67e22"),
        new("neverblock poll", "neverblock", {"NEVERBLOCK_ENGINE" => "poll"}, "#f1c40f"),
        new("async epoll", "async", {"IO_EVENT_SELECTOR" => "EPoll"}, "#2471a3"),
        new("async uring", "async", {"IO_EVENT_SELECTOR" => "URing"}, "#5dade2"),
        new("threads", "threads", {}, "#7f8c8d"),
        new("blocking", "blocking", {}, "#34495e"),
        new("fibers", "fibers", {}, "#27ae60"),
        new("falcon", "falcon", {}, "#2471a3"),
        new("puma", "puma", {}, "#7f8c8d"),
        new("iodine", "iodine", {}, "#8e44ad"),
        new("agoo", "agoo", {}, "#16a085"),
        new("itsi", "itsi", {}, "#5dade2"),
        new("nginx", "nginx", {}, "#34495e")
      ].freeze
    end

    # @param name [String]
    # @return [Contestant]
    # @raise [KeyError] where there is none of that name
    def self.named(name)
      all.find { |contestant| contestant.name == name } or
        raise KeyError, "no contestant is called \"#{name}\"; there are: #{all.map(&:name).join(", ")}"
    end

    # @param root [String] another checkout of NeverBlock, compiled
    # @return [Array<Contestant>] its library, on each engine
    def self.before(root)
      of("neverblock").map { |contestant| contestant.with(name: contestant.name.sub("neverblock", "before"), color: "#aeb6bf", root:) }
    end

    # @param libraries [Array<String>]
    # @return [Array<Contestant>] those of these libraries
    def self.of(*libraries) = all.select { |contestant| libraries.include?(contestant.library) }

    def to_s = name
  end
end
