# frozen_string_literal: true

# Writes the tables of docs/from-puma.md out of the reader's own rows:
#
#   ruby -Ilib script/from_puma_page.rb
require "neverblock"
require "neverblock/server/configuration"

# The page with its tables between two comments.
class FromPumaPage
  PATH = File.expand_path("../docs/from-puma.md", __dir__)
  TABLES = /(?<=<!-- rows: rake from_puma -->\n).*(?=<!-- end of rows -->)/m

  def to_s = File.read(PATH).sub(TABLES) { tables }

  private

  def tables
    NeverBlock::Server::FromPuma.topics.map { |title, rows| "\n### #{title}\n\n#{table(rows)}\n" }.join + "\n"
  end

  def table(rows)
    lines = rows.map { |row| "| #{code(row.names)} | #{row.here.any? ? linked(row.here) : "–"} | #{row.says.gsub("|", "\\|")} |" }
    ["| Puma | here | |", "| --- | --- | --- |", *lines].join("\n")
  end

  def code(names) = names.map { |name| "`#{name}`" }.join(", ")

  def linked(names) = names.map { |name| "[`#{name}`](configuration.md##{name})" }.join(", ")
end

File.write(FromPumaPage::PATH, FromPumaPage.new.to_s) if $PROGRAM_NAME == __FILE__
