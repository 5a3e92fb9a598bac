# frozen_string_literal: true

# Writes the table of options in docs/postgres.md out of the options' own definitions:
#
#   ruby -Ilib script/postgres_options_page.rb
require "neverblock/postgres/options"

# The page, with the table between its markers.
class PostgresOptionsPage
  PATH = File.expand_path("../docs/postgres.md", __dir__)
  BEGINNING = "<!-- Made by `rake postgres_options` from lib/neverblock/postgres/options.rb. Do not edit it. -->\n\n"
  ENDING = "\n<!-- The end of what is made. -->\n"

  # @param text [String] of the page
  def initialize(text = File.read(PATH))
    @before, @rest = text.split(BEGINNING, 2)
    @after = @rest&.split(ENDING, 2)&.fetch(1) or raise ArgumentError, "#{PATH} lacks a marker: #{BEGINNING.strip} or #{ENDING.strip}"
  end

  def to_s = [@before, BEGINNING, table, ENDING, @after].join

  # @return [String]
  def table
    ["| option | default | what it does |", "| --- | --- | --- |", *NeverBlock::Postgres::Options::ALL.each_value.map { |option| row(option) }].map { |line| "#{line}\n" }.join
  end

  private

  def row(option) = "| #{name(option)} | #{default(option)} | #{option.says}#{was(option)} Takes #{option.type.words} (`#{option.key ? option.yaml : option.example}`) |"

  def name(option)
    return "`#{option.name}`, in code alone" unless option.key
    "`#{option.key}`#{", in code `#{option.name}`" if option.key != option.name}"
  end

  def default(option)
    plain = option.default.nil? || option.default == [] || option.default.respond_to?(:call)
    "#{plain ? option.unset : "`#{option.type.show(option.default).delete_prefix(":")}`"}#{"; with Active Record `#{option.active_record}`" if option.active_record}"
  end

  def was(option) = (" The old name `#{option.was.first}` works until 0.4; it is deprecated since #{option.was.last}." if option.was)
end

File.write(PostgresOptionsPage::PATH, PostgresOptionsPage.new.to_s) if $PROGRAM_NAME == __FILE__
