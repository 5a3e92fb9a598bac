# frozen_string_literal: true

# Asks a PostgreSQL several things at once: they go out together and are answered
# together, so that however many they are, the network is waited for once.
#
#   bin/ruby examples/one_round_trip.rb postgresql:///shop
#   bin/ruby examples/one_round_trip.rb postgresql:///shop "select count(*) from orders" "select max(price) from products"
#
# Status 1 if one of them failed; the others get their answers nevertheless.
require "neverblock/postgres"

class OneRoundTrip
  QUESTIONS = [
    "show server_version",
    "select count(*) from pg_catalog.pg_class where relkind = 'r'",
    "select count(*) from pg_catalog.pg_roles",
    "select string_agg(datname, ', ' order by datname) from pg_catalog.pg_database"
  ].freeze

  # @param url [String] for libpq
  def initialize(url)
    @database = NeverBlock::Postgres.new(url)
  end

  # @param questions [Array<String>] SELECTs that need not know of each other
  # @return [Array<String, PG::Error>] their results, in order
  def call(questions)
    NeverBlock.run { NeverBlock.pipeline(*questions.map { |sql| -> { ask(sql) } }) }
  ensure
    @database.close
  end

  private

  def ask(sql)
    @database.exec(sql).values.flatten.join(", ")
  rescue PG::ServerError => error
    error
  end
end

url, *questions = ARGV
abort "Usage: one_round_trip.rb URL [SELECT...]" unless url
questions = OneRoundTrip::QUESTIONS if questions.empty?

begin
  answers = OneRoundTrip.new(url).call(questions)
  questions.zip(answers) { |sql, answer| puts "#{sql}: #{(PG::Error === answer) ? "FAILED #{answer.message.lines.first.chomp}" : answer}" }
  exit answers.none?(PG::Error)
rescue PG::ConnectionBad => error
  abort "one_round_trip.rb: #{error.message.strip}"
end
