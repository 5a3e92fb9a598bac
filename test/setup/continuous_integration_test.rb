# frozen_string_literal: true

require "test_helper"
require "fileutils"
require "open3"
require "tmpdir"
require "yaml"

# .ci/run, with a bin/test that only prints its Ruby; and the files for the public forge.
class ContinuousIntegrationTest < Minitest::Test
  ROOT = NeverBlockTest::ROOT
  FORGE = File.join(ROOT, ".github")

  def setup
    @folder = Dir.mktmpdir
    write("checkout/.ci/run", File.read(File.join(ROOT, ".ci", "run")))
    write("checkout/bin/test", %(#!/bin/sh\necho "$*: ${NEVERBLOCK_RUBY:-own}, chaos: ${NEVERBLOCK_TEST_CHAOS:-yes}${NEVERBLOCK_TEST_ENGINES:+, engines: $NEVERBLOCK_TEST_ENGINES}"\n))
    write("checkout/bin/setup", "#!/bin/sh\necho '- Compiling the extension for Ruby 9.9 ...(0 s)'\n")
    write("prefix/bin/ruby", "#!/bin/sh\necho 9.9.9\n")
  end

  def teardown
    FileUtils.rm_rf(@folder)
  end

  def test_one_ruby_where_there_is_no_second
    output, status = ci
    assert_predicate status, :success?, output
    assert_equal ["first: --all: own, chaos: yes"], closing(output)
  end

  def test_a_second_ruby_from_a_prefix
    output, status = ci("NEVERBLOCK_CI_SECOND" => "#{@folder}/prefix")
    assert_predicate status, :success?, output
    assert_equal ["first: --all: own, chaos: yes", "second: --all: #{@folder}/prefix/bin/ruby, chaos: no, engines: one"], closing(output)
  end

  def test_a_second_ruby_from_an_installer_which_is_looked_for_beside_the_checkout
    write("elsewhere/install", "#!/bin/sh\necho to $1\n")
    write("shared/ruby/install", "#!/bin/sh\necho beside to $1\n")
    {ci("NEVERBLOCK_CI_SECOND" => "#{@folder}/elsewhere/install") => "to", ci => "beside to"}.each do |(output, status), said|
      assert_predicate status, :success?, output
      assert_includes output.lines.map(&:chomp), "#{said} #{@folder}/home/.local/ruby-3.4"
      assert_equal "second: --all: #{@folder}/home/.local/ruby-3.4/bin/ruby, chaos: no, engines: one", closing(output).last
    end
  end

  def test_after_a_first_ruby_beyond_the_limit_the_second_one_runs_the_fast_tests
    output, status = ci("NEVERBLOCK_CI_SECOND" => "#{@folder}/prefix", "NEVERBLOCK_CI_LIMIT" => "-1")
    assert_predicate status, :success?, output
    assert_match(/^The first Ruby took \d+ s: the others run the fast tests only/, output)
    assert_equal ["first: --all: own, chaos: yes", "second: : #{@folder}/prefix/bin/ruby, chaos: no, engines: one"], closing(output)
  end

  def test_the_seconds_of_each_stage_are_told_before_the_closing_lines
    lines = ["unit epoll   9 passed    0 failed    0 skipped   16 s, processor    5 s", "unit         9 passed    0 failed    0 skipped    4 s, processor    5 s",
      "programs     1 passed    0 failed    0 skipped   30 s, processor   12 s", "Ruby style   1 passed    0 failed    0 skipped   50 s, processor   90 s",
      "C warnings   1 passed    0 failed    0 skipped    7 s, processor    9 s", "20 passed, 0 failed, 0 skipped"]
    write("checkout/bin/test", "#!/bin/sh\n#{lines.map { |line| "echo '#{line}'\n" }.join}")
    output, = ci("NEVERBLOCK_CI_SECOND" => "#{@folder}/prefix")
    stages = output.lines(chomp: true).grep(/\A *\d+ s  /)
    assert_match(/s  first: set-up\z/, stages[0])
    assert_equal ["    0 s  first: compile", "   57 s  first: checks", "   30 s  first: programs", "   20 s  first: unit"], stages[1, 4]
    assert_match(/\A +\d+ s  first: all tests\z/, stages[5])
    assert_match(/\A +\d+ s  second: set-up\z/, stages[6])
    assert_match(/\A +\d+ s  all Rubies: all stages\z/, stages.last)
    assert_equal ["first: 20 passed, 0 failed, 0 skipped", "", "second: 20 passed, 0 failed, 0 skipped", "All passed."], output.lines(chomp: true).last(4)
  end

  def test_a_second_ruby_that_is_none
    output, status = ci("NEVERBLOCK_CI_SECOND" => "/nowhere")
    assert_equal 1, status.exitstatus
    assert_includes output, %(NEVERBLOCK_CI_SECOND is "/nowhere", which is neither a folder with bin/ruby nor an executable.)
    assert_includes output, "FAILED: installing the second Ruby\n"
  end

  def test_further_rubies
    output, = ci("NEVERBLOCK_CI_RUBIES" => "#{@folder}/prefix/bin/ruby")
    assert_equal "9.9.9: --all: #{@folder}/prefix/bin/ruby, chaos: no, engines: one", closing(output).last
  end

  def test_the_workflow_runs_the_tests_on_each_ruby
    job = YAML.safe_load_file(File.join(FORGE, "workflows", "test.yml")).fetch("jobs").fetch("test")
    rubies = job.dig("strategy", "matrix", "ruby")
    assert_equal %w[3.3 3.4 4.0], rubies
    assert_includes rubies, Gem::Specification.load(File.join(ROOT, "neverblock.gemspec")).required_ruby_version.to_s[/[\d.]+/]
    assert_equal %w[bin/setup bin/test], job.fetch("steps").filter_map { |step| step["run"] }
  end

  def test_the_templates_have_what_the_forge_reads
    templates = Dir[File.join(FORGE, "ISSUE_TEMPLATE", "*.md")]
    refute_empty templates
    templates.each do |template|
      head = YAML.safe_load(File.read(template)[/\A---\n(.*?)^---$/m, 1])
      assert head.values_at("name", "about").none?(&:nil?), template
    end
  end

  private

  def write(path, text)
    path = File.join(@folder, path)
    FileUtils.mkdir_p(File.dirname(path))
    File.write(path, text, perm: 0o755)
  end

  def ci(variables = {})
    unset = %w[NEVERBLOCK_RUBY NEVERBLOCK_CI_SECOND NEVERBLOCK_CI_RUBIES NEVERBLOCK_CI_LIMIT NEVERBLOCK_TEST_CHAOS NEVERBLOCK_TEST_STYLE NEVERBLOCK_TEST_ENGINES].to_h { |name| [name, nil] }
    Open3.capture2e({**unset, "HOME" => "#{@folder}/home", **variables}, "#{@folder}/checkout/.ci/run")
  end

  # The lines after all runs: each names its Ruby, and the last line of its tests.
  def closing(output) = output.lines.map(&:chomp).grep(/\A[\w.]+: .*chaos: /)
end
