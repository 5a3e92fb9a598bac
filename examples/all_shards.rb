# frozen_string_literal: true

# Asks several PostgreSQL databases the same at once, and prints what each has answered, in
# their order. One that is down, or too slow, gets its own line and delays nothing else.
#
#   bin/ruby examples/all_shards.rb "select count(*) from orders" eu=postgresql:///shop_eu us=postgresql:///shop_us
#   bin/ruby examples/all_shards.rb --first "select id from users where email = 'ann@example.org'" eu=… us=…
#
# With --first: the first that has any rows, the others' statements are cancelled. Status 1
# when a database failed, or none had rows.
require "neverblock/postgres"
require "neverblock/shards"
require "optparse"

class AllShards
  # @param urls [Hash{String=>String}] for libpq, by name
  # @param seconds [Numeric] for all of them together
  def initialize(urls, seconds:)
    @databases = urls.transform_values { |url| NeverBlock::Postgres.new(url, connections: 3) }
    @seconds = seconds
  end

  # @param sql [String]
  # @return [Hash{String=>String, StandardError}] what each has answered, in their order
  def all(sql)
    values = NeverBlock::Shards.map(@databases, timeout: @seconds, partial: true) { |database| rows(database.exec(sql)) }
    @databases.to_h { |name, _| [name, values.fetch(name) { values.errors.fetch(name) }] }
  end

  # @return [Hash{String=>String}] of the first that has any; empty if none has
  # @raise [NeverBlock::Shards::Incomplete] if none has, and one has failed
  def first(sql)
    NeverBlock::Shards.first(@databases, timeout: @seconds) do |database, name|
      result = database.exec(sql)
      {name => rows(result)} if result.ntuples.positive?
    end || {}
  end

  # @return [void]
  def close = @databases.each_value(&:close)

  private

  def rows(result) = result.values.map { |row| row.join(", ") }.join("; ")
end

options = {first: false, seconds: 10}
usage = OptionParser.new do |parser|
  parser.banner = "Usage: all_shards.rb [options] SELECT NAME=URL..."
  parser.on("--first", "only the first that has rows") { options[:first] = true }
  parser.on("--seconds SECONDS", Float, "for all of them together (10)") { |seconds| options[:seconds] = seconds }
end
sql, *urls = usage.parse(ARGV)
abort usage.help if urls.empty? || !urls.all?(/\A\w+=/)

shards = AllShards.new(urls.to_h { |url| url.split("=", 2) }, seconds: options[:seconds])
begin
  answers = options[:first] ? shards.first(sql) : shards.all(sql)
  answers.each do |name, answer|
    puts (StandardError === answer) ? "#{name}: FAILED #{answer.message.lines.first.chomp}" : "#{name}: #{answer}"
  end
  exit answers.any? && answers.values.grep(StandardError).empty?
rescue NeverBlock::Shards::Incomplete => error
  abort "all_shards.rb: #{error.message}"
ensure
  shards.close
end
