# frozen_string_literal: true

require_relative "runtime"
require_relative "shards/fan_out"
require_relative "shards/incomplete"
require_relative "shards/list"
require_relative "shards/records"
require_relative "shards/results"

module NeverBlock
  # Asks all shards at once, each in a fiber of its own, and joins the values.
  #
  #   require "neverblock/shards"
  #
  #   counts = NeverBlock::Shards.map(timeout: 2) { Order.count }             # => {eu: 1204, us: 3411}
  #   owner = NeverBlock::Shards.first { User.find_by(email: "ann@example.org") }
  #   NeverBlock::Shards.each { Order.expired.delete_all }
  #
  # Without databases it asks Rails' shards: those that `connects_to shards:` names for ApplicationRecord. A class asks
  # those of that class, a Hash or an Array the databases in it, which can be any objects:
  #
  #   NeverBlock::Shards.map(OrdersRecord, role: :reading) { Order.count }
  #   NeverBlock::Shards.map({eu: eu, us: us}) { |database, name| database.exec("select count(*) from orders") }
  #
  # The block is called once for each shard. A failed one costs its own error: nothing is repeated, on no shard.
  #
  # `shards/` has the parts:
  #
  #   fan_out.rb      one call: the fibers, their deadline, their outcomes
  #   records.rb      Rails' shards
  #   list.rb         the databases of a Hash or an Array
  #   results.rb      values by shard, and errors by shard
  #   incomplete.rb   the error of a call that can't be complete
  module Shards
    # Shards that are asked at a time, unless `limit:` says otherwise.
    LIMIT = 50

    # Calls the block for each shard. Waits until each has ended, by its value, its error or the deadline, and raises
    # if any has failed. The others have taken effect then.
    #
    # @param databases [Class, Hash, #each, nil] a class of Active Record; databases by name; a list of databases; nil:
    #   Rails' shards
    # @param limit [Integer] shards that are asked at a time
    # @param timeout [Numeric, nil] seconds for all of them together; nil: no limit
    # @param partial [Boolean] whether errors are returned instead of raised
    # @param only [Object, Array, nil] the names of some shards; nil: all
    # @param role [Symbol, nil] Active Record's role on each of them; nil: the caller's
    # @yieldparam database [Object] Rails' name of the shard, or the database
    # @yieldparam name [Object] if databases is a Hash
    # @return [Hash{Object=>Exception}] errors by shard, empty without `partial: true`
    # @raise [Incomplete] if a shard has failed
    # @raise [ConfigurationError] for a shard or a role that doesn't exist, and where shard swapping is prohibited
    def self.each(databases = nil, limit: LIMIT, timeout: nil, partial: false, only: nil, role: nil, &block)
      FanOut.new("each", source("each", databases, role), only:, limit:, timeout:, &block).all(partial:).errors
    end

    # As {each}, with the values.
    #
    # @param (see each)
    # @yieldparam (see each)
    # @return [Results] a Hash of the values by shard, in the order of the shards
    # @raise (see each)
    def self.map(databases = nil, limit: LIMIT, timeout: nil, partial: false, only: nil, role: nil, &block)
      FanOut.new("map", source("map", databases, role), only:, limit:, timeout:, &block).all(partial:)
    end

    # Returns the first value that isn't nil, and cancels the other shards' fibers, with their statements. If no shard
    # has such a value, returns nil; or raises if one has failed, which might have had it.
    #
    # @param (see each)
    # @param partial [Boolean] whether nil is returned even if a shard has failed
    # @yieldparam (see each)
    # @return [Object, nil]
    # @raise (see each)
    def self.first(databases = nil, limit: LIMIT, timeout: nil, partial: false, only: nil, role: nil, &block)
      FanOut.new("first", source("first", databases, role), only:, limit:, timeout:, &block).first(partial:)
    end

    def self.source(method, databases, role)
      return Records.new(method, databases, role) if databases.nil? || databases.respond_to?(:connected_to)
      raise ConfigurationError, "Shards.#{method}: role: #{role.inspect} is for Active Record's shards" if role
      List.new(method, databases)
    end
    private_class_method :source
  end
end

NeverBlock::Shards::Records.prepare
