# frozen_string_literal: true

require "test_helper"
require "support/doc_block"
require_relative "../../demo/back_end"

# The documentation is correct: each runnable block of Ruby runs without a warning and prints its announced output; the
# others at least parse; links have targets.
class DocsTest < Minitest::Test
  include NeverBlockTest::Helpers

  PAGES = Dir.chdir(NeverBlockTest::ROOT) { ["README.md", "CONTRIBUTING.md", *Dir["{docs,examples}/**/*.md"].sort] }
  BLOCKS = PAGES.flat_map { |page| NeverBlockTest::DocBlock.in(page) }

  # The address that programs in the documentation use, where a reader starts
  # demo/slow_server.rb; the tests have one of their own at another port.
  SERVER = "http://127.0.0.1:8080/"

  BLOCKS.select(&:runnable?).each do |block|
    define_method(:"test_runs_#{block}") do
      output = with_server(block.code) { |code| assert_ruby(code) }
      assert_equal block.expected, output, block.to_s if block.expected
    end
  end

  def test_every_block_parses
    BLOCKS.each do |block|
      silently { RubyVM::InstructionSequence.compile(block.code, block.to_s, block.to_s, block.line) }
    rescue SyntaxError => error
      flunk "#{block}: #{error.message}"
    end
  end

  def test_there_is_a_runnable_program_in_the_readme
    assert(NeverBlockTest::DocBlock.in("README.md").any?(&:runnable?))
  end

  def test_links_within_the_project_lead_somewhere
    broken = PAGES.flat_map { |page| links(page).reject { |target| leads?(page, target) }.map { |target| "#{page}: #{target}" } }
    assert_empty broken
  end

  def test_the_index_lists_every_page
    index = links("docs/README.md").map { |target| target.sub(/#.*/, "") }
    missing = Dir.glob("**/*.md", base: File.join(NeverBlockTest::ROOT, "docs")) - index - ["README.md"]
    assert_empty missing
  end

  private

  def with_server(code)
    return yield code unless code.include?(SERVER)
    Demo::BackEnd.open(delay: 0.1) { |back_end| yield code.gsub(SERVER, back_end.uri("/").to_s) }
  end

  # Without warnings: fragments of programs have unused variables.
  def silently
    verbose, $VERBOSE = $VERBOSE, nil
    yield
  ensure
    $VERBOSE = verbose
  end

  def links(page)
    text = File.read(File.join(NeverBlockTest::ROOT, page)).gsub(/^```.*?^```/m, "")
    text.scan(/\]\(([^)\s]+)\)/).flatten.reject { |target| target.match?(/\A[a-z]+:/) }
  end

  def leads?(page, target)
    path, anchor = target.split("#", 2)
    file = path.empty? ? page : File.join(File.dirname(page), path)
    return false unless File.exist?(File.join(NeverBlockTest::ROOT, file))
    anchor.nil? || anchors(file).include?(anchor)
  end

  # As forges derive them from headings.
  def anchors(page)
    File.readlines(File.join(NeverBlockTest::ROOT, page)).grep(/\A#+ /).map do |heading|
      heading.sub(/\A#+ /, "").strip.downcase.gsub(/[^\p{Word}\- ]/, "").tr(" ", "-")
    end
  end
end
