# frozen_string_literal: true

require "test_helper"
require "fileutils"
require "open3"
require "shellwords"
require "tmpdir"

# bin/lib/project.sh: the set-up for bin/demo, and the rest of it for bin/test.
class PartsTest < Minitest::Test
  LIBRARY = File.join(NeverBlockTest::ROOT, "bin", "lib")
  DEMO = %w[rake].freeze

  def setup
    @folder = Dir.mktmpdir("project with blanks")
    FileUtils.mkdir_p(%w[lib/neverblock/3.4 vendor/bundle rakelib state].map { |path| File.join(@folder, path) })
    FileUtils.touch(%w[Gemfile neverblock.gemspec lib/neverblock/version.rb rakelib/compile.rake lib/neverblock/3.4/neverblock_ext.so].map { |path| File.join(@folder, path) })
  end

  def teardown
    FileUtils.rm_rf(@folder)
  end

  def test_the_demo_leaves_out_each_group_of_the_gemfile
    groups = Bundler::Dsl.evaluate(File.join(NeverBlockTest::ROOT, "Gemfile"), nil, {}).dependencies.to_h { |gem| [gem.name, gem.groups] }
    assert_equal DEMO, groups.select { |name, of| of == [:default] && name != "neverblock" }.keys
    left_out = shell("gems_left_out demo").chomp.split(":").map(&:to_sym)
    assert_equal left_out.sort, groups.values.flatten.uniq.sort - [:default]
  end

  def test_tests_leave_nothing_out_but_what_needs_a_missing_library
    assert_equal "\n", shell("gems_left_out all")
    assert_equal "postgres:libpq\n", shell('command() { [ "$2" != pg_config ]; }; gems_left_out all')
    assert_equal "mysql\n", shell('command() { [ "$2" != mariadb_config ]; }; gems_left_out all')
    assert_equal "lint:peers:postgres:libpq:mysql\n", shell('NB_PREVIEW=true; touch "$(without_extensions)"; gems_left_out all')
  end

  def test_parts_for_the_tests_include_those_for_the_demo
    assert_equal "all no\ndemo no\n", ready
    shell('project_digest demo >"$(ready_file demo)"')
    assert_equal "all no\ndemo yes\n", ready
    shell('rm "$(ready_file demo)"; project_digest all >"$(ready_file all)"')
    assert_equal "all yes\ndemo yes\n", ready
    File.write(File.join(@folder, "Gemfile"), "gem 'another'\n")
    assert_equal "all no\ndemo no\n", ready
  end

  private

  def ready
    shell('for NB_PART in all demo; do if project_ready; then echo "$NB_PART yes"; else echo "$NB_PART no"; fi; done')
  end

  def shell(script)
    output, status = Open3.capture2e("bash", "-c", <<~SH, chdir: @folder)
      set -eu
      NB_STATE=$PWD/state NB_RUBY=/opt/ruby NB_RUBY_VERSION=3.4.1 NB_RUBY_SERIES=3.4 NB_PREVIEW=false
      pg_config() { :; }
      mariadb_config() { :; }
      . #{LIBRARY.shellescape}/project.sh
      #{script}
    SH
    assert_predicate status, :success?, output
    output
  end
end
