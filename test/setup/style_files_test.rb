# frozen_string_literal: true

require "test_helper"
require "fileutils"
require "open3"
require "tmpdir"
require_relative "../../rakelib/style_files"

# The files that a style check on a developer's machine reads.
class StyleFilesTest < Minitest::Test
  def setup
    @root = Dir.mktmpdir
    write("lib/a.rb" => "1\n", "lib/b.rb" => "1\n", "docs/a.md" => "1\n", ".standard.yml" => "1\n", ".gitignore" => "/tmp/\n")
    git("init", "-q")
    commit
  end

  def teardown
    FileUtils.rm_rf(@root)
  end

  def test_nothing_has_changed
    assert_empty files.changed
  end

  def test_changed_and_new_files
    write("lib/b.rb" => "2\n", "lib/c.rb" => "1\n", "docs/a.md" => "2\n", "tmp/d.rb" => "1\n", "x.rake" => "1\n")
    FileUtils.rm(File.join(@root, "lib/a.rb"))
    assert_equal %w[lib/b.rb lib/c.rb x.rake], files.changed
  end

  def test_commits_since_the_last_check_that_passed
    files.passed
    write("lib/b.rb" => "2\n")
    commit
    assert_equal %w[lib/b.rb], files.changed
    files.passed
    assert_empty files.changed
  end

  def test_new_rules_are_for_all_files
    write(".standard.yml" => "2\n")
    assert_nil files.changed
  end

  def test_a_commit_that_is_gone_and_a_folder_without_git
    write("tmp/style_passed_at" => "#{"0" * 40}\n")
    assert_nil files.changed
    FileUtils.rm_rf(File.join(@root, ".git"))
    assert_nil files.changed
    assert_nil files.passed
  end

  private

  def files = StyleFiles.new(@root)

  def write(texts)
    texts.each do |path, text|
      FileUtils.mkdir_p(File.dirname(File.join(@root, path)))
      File.write(File.join(@root, path), text)
    end
  end

  def commit
    git("add", "-A")
    git("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "a")
  end

  def git(*command)
    output, status = Open3.capture2e({"GIT_CONFIG_GLOBAL" => File::NULL, "GIT_CEILING_DIRECTORIES" => File.dirname(@root)}, "git", "-C", @root, *command)
    assert_predicate status, :success?, output
  end
end
