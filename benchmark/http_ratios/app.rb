# frozen_string_literal: true

# One app, two URLs: what Sequel finds, as JSON, by shared connections in fibers, and by one connection that makes the whole process
# wait. One request in so many asks for something that takes the database 50 ms.
#
#   app = Measured::RatiosApp.new({port: 6000, dbname: "bench"})
#   app.call("PATH_INFO" => "/fibers/20")       # => [200, {...}, ["[{\"id\":7,...}]"]], one long one for each 20 short ones
#   app.call("PATH_INFO" => "/blocking/20")
require "json"
require "neverblock"
require "sequel"
require_relative "../database/child/check"

module Measured
  class RatiosApp
    CONNECTIONS = 12 # as in 2008
    IDS = 10_000 # of rows there are
    ROWS = 10 # that a short one reads
    PATIENCE = 60 # seconds that one may wait for a connection: a thousand may be here

    # @param place [Hash{Symbol=>Object}] for PG.connect
    def initialize(place)
      options = {**place.slice(:host, :port, :user, :sslmode), database: place[:dbname], pool_timeout: PATIENCE}
      @ways = {"fibers" => {adapter: "neverblock-postgres", connections: CONNECTIONS}, "blocking" => {adapter: "postgres", max_connections: 1}}
        .transform_values { |own| model(Sequel.connect(**own, **options)) }
      @numbers = Hash.new(0)
    end

    # @param env [Hash{String=>Object}]
    # @return [Array] for Rack
    def call(env)
      path = env["PATH_INFO"]
      _, way, short = path.split("/")
      item = @ways[way] or return [200, {"content-type" => "text/plain"}, ["Hello World!"]]
      long = (@numbers[path] += 1) % (Integer(short) + 1) == 0
      text = (way == "blocking") ? Fiber.blocking { answer(item, long) } : answer(item, long)
      [200, {"content-type" => "application/json"}, [text]]
    end

    private

    # Without the connection that created it: the server counts the serving ones.
    def model(database)
      Class.new(Sequel::Model(database[:items])) { plugin :json_serializer }.tap { database.disconnect }
    end

    def answer(item, long) = long ? item.db[:slow].all.to_json : short(item)

    def short(item)
      ids = (1 + rand(IDS - ROWS)).then { |first| (first...(first + ROWS)).to_a }
      items = item.where(id: ids).order(:id).all
      Check.same(items.map(&:id), ids)
      items.to_json
    end
  end
end
