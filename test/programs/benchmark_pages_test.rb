# frozen_string_literal: true

require "test_helper"

# docs/benchmarks.md is a summary: its figures equal those of the benchmarks' own pages, and it stays short. The README
# repeats some of them.
class BenchmarkPagesTest < Minitest::Test
  DOCS = File.join(NeverBlockTest::ROOT, "docs")
  SUMMARY = File.read(File.join(DOCS, "benchmarks.md"))
  SECTIONS = SUMMARY.split(/^## /).drop(1).to_h { |section| section.split("\n", 2) }

  def test_figures_of_the_summary_are_on_the_pages
    strays = SECTIONS.flat_map do |name, section|
      figures(section).reject { |figure| page(name).match?(/(?<![\d.,])#{Regexp.escape(figure)}(?![\d.,]*\d)/) }.map { |figure| "#{name}: #{figure}" }
    end
    assert_empty strays, "figures that are not on docs/benchmarks/NAME.md"
    assert_operator SECTIONS.sum { |_, section| figures(section).size }, :>, 50
  end

  def test_figures_of_the_readme_are_in_the_docs
    readme = File.read(File.join(NeverBlockTest::ROOT, "README.md"))
    found = numbers(readme)
    assert_operator found.size, :>=, 6, "three rows, each with two figures"
    assert_empty strays(found, SUMMARY)
    assert_operator readme.lines.size, :<=, 60
  end

  # Its tables repeat what bin/demo has printed, which is the last block of the page.
  def test_figures_of_the_overview_are_those_of_the_demo
    section = File.read(File.join(DOCS, "overview.md")).split("## What bin/demo prints").last
    tables, output = section.split("```", 2)
    found = numbers(tables)
    assert_operator found.size, :>, 20
    assert_empty strays(found, output)
  end

  def test_the_bars_of_the_summary_are_those_of_the_pages
    said = SUMMARY.scan(/^\| \[(\w+)\]\(#\w+\) .* \| (\d+ of \d+)? *\|$/).to_h
    assert_operator said.size, :>, 10
    (said.keys - ["others"]).each do |name|
      said[name] ? assert_equal(page(name)[/^Bars: (\d+ of \d+) reached/, 1], said[name], name) : refute_match(/^Bars: /, page(name), name)
    end
  end

  def test_the_summary_names_every_page_and_stays_short
    pages = Dir.glob("*.md", base: File.join(DOCS, "benchmarks"))
    assert_empty pages - SUMMARY.scan(%r{\]\(benchmarks/([^)#]+)\)}).flatten
    assert_operator SUMMARY.lines.size, :<=, 200
  end

  private

  def page(name) = File.read(File.join(DOCS, "benchmarks", "#{name}.md"))

  # The figures in a page's tables, with their units.
  def numbers(text) = figures(text).flat_map { |cell| cell.scan(/\d[\d.,]*\d(?: (?:ns|µs|ms|s)\b)?/) }

  # Thousands are grouped in some pages.
  def strays(found, text)
    known = text.gsub(/(?<=\d),(?=\d{3}\b)/, "")
    found.reject { |figure| known.match?(/(?<![\d.,])#{Regexp.escape(figure.delete(","))}(?![\d.,]*\d)/) }
  end

  # The cells with figures, without a prefix such as the name of a server.
  def figures(section)
    rows = section.lines.grep(/^\|/).map { |line| line.strip.split(/ *\| */).drop(2) }
    rows.drop(1).flatten.grep(/\d/).map { |cell| cell.sub(/\A\w+: /, "") }
  end
end
