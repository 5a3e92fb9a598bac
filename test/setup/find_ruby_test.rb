# frozen_string_literal: true

require "test_helper"
require "fileutils"
require "open3"
require "shellwords"
require "tmpdir"

# bin/lib/ruby.sh: the Ruby that bin/setup uses. The Rubies are small shell scripts with a Ruby's answers, in the
# folders where version managers keep them.
class FindRubyTest < Minitest::Test
  LIBRARY = File.join(NeverBlockTest::ROOT, "bin", "lib")

  def setup
    @home = Dir.mktmpdir("home with blanks")
  end

  def teardown
    FileUtils.rm_rf(@home)
  end

  def test_the_newest_stable_ruby_of_all_version_managers_is_taken
    fake_ruby(".rbenv/versions/3.3.9", "3.3.9")
    fake_ruby(".local/share/mise/installs/ruby/3.4.10", "3.4.10")
    fake_ruby(".asdf/installs/ruby/3.4.9", "3.4.9")
    fake_ruby(".rubies/ruby-4.1.0-preview1", "4.1.0", stable: false)
    output, status = find_ruby
    assert_predicate status, :success?, output
    assert_equal "3.4.10 3.4 #{@home}/.local/share/mise/installs/ruby/3.4.10/bin/ruby", output.strip
  end

  def test_each_place_by_itself
    [".rbenv/versions/x", ".local/share/mise/installs/ruby/x", ".asdf/installs/ruby/x", ".rvm/rubies/x",
      ".rubies/x", "built/ruby-x"].each do |place|
      fake_ruby(place, "3.3.1")
      output, = find_ruby
      assert_equal "3.3.1 3.3 #{@home}/#{place}/bin/ruby", output.strip
      FileUtils.rm_rf(File.join(@home, place))
    end
  end

  def test_a_preview_is_better_than_nothing
    fake_ruby(".rubies/preview", "4.1.0", stable: false)
    output, = find_ruby
    assert_match(/\A4\.1\.0 4\.1 /, output)
  end

  def test_a_ruby_that_does_not_start_is_passed_over_and_named
    fake_ruby(".rubies/broken", "3.4.0", script: "exit 1")
    output, status = find_ruby
    refute_predicate status, :success?
    assert_includes output, ".rubies/broken/bin/ruby: it does not run"
  end

  slow "it compiles"
  def test_the_running_ruby_is_judged_usable
    output, status = shell("judge_ruby #{RbConfig.ruby.shellescape}")
    assert_predicate status, :success?
    assert_match(/\Aok \d{10} #{RUBY_VERSION} \d+\.\d+ #{Regexp.escape(RbConfig.ruby)}\n\z/, output)
  end

  def test_an_asked_for_ruby_that_is_not_there_ends_with_the_value_and_the_remedy
    output, status = shell("use_ruby_asked_for", "NEVERBLOCK_RUBY" => "/no/such/ruby")
    assert_equal 1, status.exitstatus
    assert_includes output, 'NEVERBLOCK_RUBY is "/no/such/ruby", which is no program.'
    assert_includes output, "unset it"
  end

  def test_an_asked_for_ruby_that_is_too_old_ends_with_the_reason
    old = fake_ruby("old", "3.1.2", script: "echo 'no /old: version 3.1.2, where 3.3 or newer is needed'")
    output, status = shell("use_ruby_asked_for", "NEVERBLOCK_RUBY" => old)
    assert_equal 1, status.exitstatus
    assert_includes output, "version 3.1.2, where 3.3 or newer is needed"
  end

  private

  def find_ruby
    shell('if find_ruby; then echo "$NB_RUBY_VERSION $NB_RUBY_SERIES $NB_RUBY"; else printf %s "$NB_REFUSED"; exit 1; fi')
  end

  # Runs shell code after the library is loaded, in an environment where HOME holds the only Rubies.
  def shell(code, environment = {})
    program = <<~SH
      set -eu
      . #{LIBRARY.shellescape}/ui.sh
      . #{LIBRARY.shellescape}/ruby.sh
      #{code}
    SH
    world = {"HOME" => @home, "NB_HOME" => "#{@home}/built", "PATH" => "#{@home}/bin:/usr/bin:/bin"}
    world.update(%w[RBENV_ROOT MISE_DATA_DIR ASDF_DATA_DIR rvm_path].to_h { |name| [name, nil] })
    # Rubies elsewhere on this machine must not win: only folders of HOME count.
    program = "type() { :; }\n#{program}" unless code.start_with?("judge", "use")
    Open3.capture2e(world.merge(environment), "bash", "-c", program)
  end

  def fake_ruby(place, version, stable: true, script: nil)
    path = File.join(@home, place, "bin", "ruby")
    FileUtils.mkdir_p(File.dirname(path))
    numbers = version.split(".")
    key = "#{stable ? 1 : 0}#{numbers.map { |number| number.rjust(3, "0") }.join}"
    answer = script || "echo 'ok #{key} #{version} #{numbers.first(2).join(".")} #{path}'"
    File.write(path, "#!/bin/sh\n#{answer}\n")
    File.chmod(0o755, path)
    path
  end
end
