# frozen_string_literal: true

# Writes the tables of docs/from-puma.md out of the reader's own rows:
#
#   ruby -Ilib script/from_puma_page.rb            # writes them
#   ruby -Ilib script/from_puma_page.rb --check    # fails where they are not what they should be
require "neverblock"
require "neverblock/server/configuration"

# The page, whose tables stand between two comments.
class FromPumaPage
  PATH = File.expand_path("../docs/from-puma.md", __dir__)
  TABLES = /(?<=<!-- rows: rake from_puma -->\n).*(?=<!-- end of rows -->)/m

  def to_s = File.read(PATH).sub(TABLES) { tables }

  # @return [Boolean]
  def current? = File.read(PATH) == to_s

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

if $PROGRAM_NAME == __FILE__
  page = FromPumaPage.new
  if ARGV.first == "--check"
    abort "docs/from-puma.md is not what the reader's rows say: rake from_puma" unless page.current?
  else
    File.write(FromPumaPage::PATH, page.to_s)
  end
end
