# frozen_string_literal: true

# The contestants with MariaDB: ours and the stock adapters. A name ends with the driver and the number of connections.
#
#   Bench::Mysql::CONTESTANTS.map(&:name)      # => ["neverblock trilogy 12", ..., "threads mysql2 12"]
#   Bench::Mysql.adapter(contestant)           # => "neverblock_trilogy"
#   Bench::Mysql.stock(contestant)             # => "threads trilogy 12"
require_relative "../database/contestant"

module Bench
  class Mysql
    GROUPS = {"trilogy" => %i[default database mysql], "mysql2" => %i[default database mysql mysql2]}.freeze # of the gems
    STOCK = "threads trilogy"

    # In fibers on shared connections; in fibers on a pool; in threads with a connection each.
    CONTESTANTS = [
      Database::Contestant.ours(12).with(name: "neverblock trilogy 12"),
      Database::Contestant.ours(32).with(name: "neverblock trilogy 32", color: "#8e44ad"),
      Database::Contestant.ours(12).with(name: "neverblock mysql2 12", color: "#e67e22"),
      Database::Contestant.pool(12, "#f1c40f").with(name: "pool trilogy 12"),
      Database::Contestant.threads(12, "#7f8c8d").with(name: "#{STOCK} 12"),
      Database::Contestant.threads(32, "#bdc3c7").with(name: "#{STOCK} 32"),
      Database::Contestant.threads(12, "#34495e").with(name: "threads mysql2 12")
    ].freeze

    # @return [String] "trilogy" or "mysql2"
    def self.driver(contestant) = contestant.name.split[-2]

    # @return [String] of Active Record
    def self.adapter(contestant) = "#{"neverblock_" if contestant.own}#{driver(contestant)}"

    # @return [String] the name of the contestant that it is compared with: the stock adapter with as many connections
    def self.stock(contestant) = "#{STOCK} #{contestant.connections}"
  end
end
