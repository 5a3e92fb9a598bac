# frozen_string_literal: true

# A contestant with a database: its library, its executor, and its number of connections.
#
#   Bench::Database::Contestant.for(:closed).map(&:name)      # => ["neverblock 8", "pool 8", ...]
require_relative "../bench/load_path"

module Bench
  class Database
    Contestant = Data.define(:name, :library, :own, :connections, :color, :root) do
      def initialize(root: LoadPath::ROOT, **) = super

      # @param kind [Symbol] of rows
      # @return [Array<Contestant>]
      def self.for(kind) = Database::CONTESTANTS.fetch(kind)

      # @return [Array<Contestant>]
      def self.all = Database::CONTESTANTS.values.flatten.uniq

      # Ours, and the stock driver on a pool: in fibers on NeverBlock or async, in threads, or with nothing at once.
      def self.ours(connections) = new("neverblock #{connections}", "neverblock", true, connections, "#c0392b")
      def self.pool(connections, color) = new("pool #{connections}", "neverblock", false, connections, color)
      def self.async(connections, color) = new("async #{connections}", "async", false, connections, color)
      def self.threads(connections, color) = new("threads #{connections}", "threads", false, connections, color)
      def self.blocking = new("blocking", "blocking", false, 1, "#34495e")

      # @param root [String] another checkout of NeverBlock, compiled
      # @return [Contestant] the same with its library
      def before(root) = with(name: name.sub("neverblock", "before"), color: "#aeb6bf", root:)

      # `gem "pg"` in Active Record looks for an installed gem, whatever the load path has.
      # @return [Hash{String=>String}]
      def environment = {"GEM_PATH" => Bundler.bundle_path.to_s}

      # @return [Boolean] whether as many are at work as the row says
      def fibers? = library != "threads"

      def to_s = name
    end

    CONTESTANTS = {
      closed: [
        Contestant.ours(8), Contestant.pool(8, "#e67e22"), Contestant.pool(32, "#f1c40f"), Contestant.pool(100, "#f7dc6f"),
        Contestant.async(32, "#5dade2"), Contestant.threads(8, "#7f8c8d"), Contestant.threads(32, "#bdc3c7")
      ],
      mixed: [Contestant.ours(8), Contestant.pool(8, "#e67e22"), Contestant.pool(32, "#f1c40f"), Contestant.async(32, "#5dade2"), Contestant.threads(32, "#bdc3c7")],
      burst: [Contestant.ours(8)],
      long_short: [Contestant.ours(12), Contestant.pool(12, "#e67e22"), Contestant.blocking]
    }.freeze
  end
end
