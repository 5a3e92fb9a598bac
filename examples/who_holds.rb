# frozen_string_literal: true

# A pool of PostgreSQL connections with more work than connections: prints the holders, the waiters, and the message
# that ends a wait in vain.
#
#   bin/ruby examples/who_holds.rb postgresql:///shop
require "neverblock/postgres"

class WhoHolds
  # @param url [String] for libpq
  def initialize(url)
    @database = NeverBlock::Postgres.new(url, name: "shop", connections: 3, timeout: 2)
  end

  # @return [String] the pool's statistics while all its connections are held
  def call
    NeverBlock.run do |scope|
      scope.spawn(name: "checkout") { in_a_transaction { call_another_service } }
      scope.spawn(name: "import") { in_a_transaction { call_another_service } }
      NeverBlock.pass until @database.stats[:held] == 2
      scope.spawn(name: "report") { @database.exec("select pg_sleep(60)") }
      NeverBlock.pass until @database.stats[:held] == 3
      report(wait_in_vain).tap { scope.cancel }
    end
  ensure
    @database.close
  end

  private

  def in_a_transaction
    @database.transaction do |connection|
      connection.exec("select 'an order'")
      yield
    end
  end

  # A wait that a transaction should avoid.
  def call_another_service = sleep

  def wait_in_vain
    in_a_transaction { nil }
  rescue NeverBlock::Postgres::PoolTimeout => error
    error.message
  end

  def report(message)
    figures = NeverBlock.stats[:postgres].fetch("shop")
    states = figures[:states].map { |state, count| "#{count} #{state}" }.join(", ")
    holders = figures[:holders].map { |holder| "#{holder[:task]} (#{holder[:state]}) since #{holder[:age]} s: #{holder[:statement]}, at #{holder[:at]}" }
    ["#{figures[:size]} connections: #{states}; #{figures[:waits][:timeouts]} waited in vain", *holders, message].join("\n")
  end
end

abort "Usage: who_holds.rb URL" unless ARGV.one?
begin
  puts WhoHolds.new(ARGV.first).call
rescue PG::ConnectionBad => error
  abort "who_holds.rb: #{error.message.strip}"
end
