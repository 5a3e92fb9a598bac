# frozen_string_literal: true

require "test_helper"

# docs/architecture.md names functions, methods and classes, and links each to the file that defines it. The links are
# references, [`name`][label]; the list at the end of the page maps labels to files.
class ArchitecturePageTest < Minitest::Test
  FOLDER = File.join(NeverBlockTest::ROOT, "docs")
  TEXT = File.read(File.join(FOLDER, "architecture.md"))
  FILES = TEXT.scan(/^\[([\w-]+)\]: (\S+)$/).to_h
  LINKS = TEXT.scan(/\[([^\[\]]+)\]\[([\w-]+)\]/)
  # Files that begin with a map of a folder, which names each file in it; for C, each .c.
  MAPS = {"lib/neverblock/cli.rb" => "lib/neverblock/cli/*.rb", "lib/neverblock/server.rb" => "lib/neverblock/server/*.rb",
          "lib/neverblock/server/cluster/supervisor.rb" => "lib/neverblock/server/cluster/*.rb",
          "lib/neverblock/postgres.rb" => "lib/neverblock/postgres/*.rb", "lib/neverblock/mysql.rb" => "lib/neverblock/mysql/*.rb",
          "lib/neverblock/runtime.rb" => "lib/neverblock/runtime/*.rb",
          "ext/neverblock/engine/engine.h" => "ext/neverblock/engine/**/*.c",
          "ext/neverblock/scheduler/scheduler.h" => "ext/neverblock/scheduler/*.c",
          "ext/neverblock/http/app/app.h" => "ext/neverblock/http/app/*.c",
          "ext/neverblock/http/protocol/parser.h" => "ext/neverblock/http/protocol/*.c",
          "ext/neverblock/http/transport/transport.h" => "ext/neverblock/http/transport/*.c"}.freeze
  STEPS = {"a sleep" => 6, "a request" => 9, "a statement" => 7, "The replacement of a worker" => 5}.freeze

  def test_every_label_has_a_file_that_exists
    assert_empty LINKS.map(&:last).uniq - FILES.keys, "labels without a file"
    assert_empty FILES.keys - LINKS.map(&:last), "files that nothing links to"
    assert_empty FILES.reject { |_, path| File.file?(File.join(FOLDER, path)) }.values, "files that are not there"
  end

  def test_the_list_of_files_is_sorted
    assert_equal FILES.keys.sort, FILES.keys
  end

  def test_every_name_occurs_in_its_file
    absent = LINKS.uniq.filter_map do |text, label|
      name = text[/\A`(.+)`\z/, 1] or next
      "#{name}: not in #{FILES[label]}" unless defines?(File.read(File.join(FOLDER, FILES.fetch(label))), name)
    end
    assert_empty absent
  end

  def test_a_call_is_no_definition
    definitions = ["int nb_x(void) {", "static VALUE\nnb_x(int a,\n     int b) {", "def nb_x(a)", "def self.nb_x = 1", "class nb_x < Y", "  nb_x = {", "} nb_x;"]
    others = ["    nb_x(a);", "int nb_x(void);", "def nb_xy", "nb_x.call", " * nb_x(a) {"]
    assert_empty definitions.reject { |code| defines?(code, "nb_x") }
    assert_empty others.select { |code| defines?(code, "nb_x") }
  end

  def test_each_life_has_its_steps_and_each_step_a_link
    STEPS.each do |title, count|
      steps = section(title)[/^1\. .*?(?=\n\n\S|\z)/m].split(/^(?=\d+\. )/)
      assert_operator steps.size, :>=, count, title
      assert_empty steps.grep_v(/\]\[/), title
    end
  end

  def test_each_question_is_answered_in_at_most_two_files
    rows = section("Where is").lines.grep(/^\| /).drop(2)
    assert_operator rows.size, :>=, 20
    answers = rows.to_h { |row| [row[/\A\| (.*?) \|/, 1], row.scan(/\]\[([\w-]+)\]/).uniq.size] }
    assert_empty answers.reject { |_, files| files.between?(1, 2) }
  end

  MAPS.each do |file, files|
    define_method(:"test_the_map_in_#{file}_names_each_file") do
      map = File.read(File.join(NeverBlockTest::ROOT, file))[%r{\A(?:# frozen_string_literal: true\n\n(?:#.*\n)+|/\*(?m:.*?)\*/)}]
      named = map.scan(%r{[\w/]+\.(?:rb|c|h)\b}).map { |name| File.basename(name) }
      there = Dir.glob(files, base: NeverBlockTest::ROOT).map { |path| File.basename(path) }
      refute_empty there
      assert_empty there - named, "files that the map does not name"
      assert_empty named.reject { |name| Dir[File.join(NeverBlockTest::ROOT, "{lib,ext}/neverblock/**", name)].any? }, "files that are not there"
    end
  end

  private

  def section(title) = TEXT[/^## [^\n]*#{Regexp.escape(title)}.*?(?=^## |\z)/m] || flunk("no section #{title}")

  # A definition, or a call that creates the name: a table's name, define_method or Data.
  def defines?(code, name)
    word = Regexp.escape(name)
    code.match?(/\b(?:def (?:self\.)?|class |module |struct )#{word}(?!\w)|^\s*#{word} = |^(?=\S)[^\n;#]*\b#{word}\([^;]*?\{|\}\s*#{word};/m)
  end
end
