# frozen_string_literal: true

require "test_helper"
require "fileutils"
require "open3"
require "shellwords"
require "tmpdir"

# bin/lib/ui.sh and the messages of bin/lib/debian.sh, as users see them.
class UiTest < Minitest::Test
  LIBRARY = File.join(NeverBlockTest::ROOT, "bin", "lib")

  def setup
    @folder = Dir.mktmpdir("logs with blanks")
  end

  def teardown
    FileUtils.rm_rf(@folder)
  end

  def test_a_step_prints_its_title_and_seconds_and_keeps_the_output_in_its_log
    output, status = shell('step "Doing it" it.log echo hello')
    assert_predicate status, :success?, output
    assert_match(/\A- Doing it \(\d+ s\)\n\z/, output)
    assert_equal "hello\n", File.read(File.join(@folder, "it.log"))
  end

  def test_a_failing_step_shows_the_end_of_its_log_and_where_the_log_is
    output, status = shell('step "Doing it" it.log sh -c "seq 100; exit 3"; echo never')
    assert_equal 1, status.exitstatus
    assert_includes output, "Doing it failed with status 3."
    assert_includes output, "    100\n"
    refute_includes output, "    75\n"
    assert_includes output, "#{@folder}/it.log"
    refute_includes output, "never"
  end

  def test_a_step_that_may_fail_hands_its_status_on
    output, status = shell('try_step "Doing it" it.log sh -c "exit 4" || echo "went on after $?"')
    assert_predicate status, :success?, output
    assert_includes output, "went on after 4"
  end

  def test_a_long_step_shows_signs_of_life_without_a_terminal
    output, = shell('show_progress "Doing it" it.log 5; show_progress "Doing it" it.log 6; show_progress "Doing it" it.log 10')
    assert_equal "..", output
  end

  def test_a_step_reads_no_input
    output, status = shell('step "Reading" it.log cat')
    assert_predicate status, :success?, output
  end

  def test_missing_packages_without_root_end_with_the_command_to_type
    output, status = shell(<<~SH)
      . #{LIBRARY.shellescape}/debian.sh
      id() { echo 1000; }
      dpkg-query() { [ "$4" = liburing-dev ] || echo "install ok installed"; }
      need_packages build-essential liburing-dev pkg-config
    SH
    assert_equal 1, status.exitstatus
    assert_match(/^  sudo apt-get install --no-install-recommends liburing-dev *$/, output)
    refute_includes output, "pkg-config"
  end

  def test_a_folder_with_a_blank_cannot_hold_a_built_ruby
    output, status = shell(". #{LIBRARY.shellescape}/debian.sh; NB_HOME='/a b'; build_debian_ruby")
    assert_equal 1, status.exitstatus
    assert_includes output, 'Ruby cannot be built in "/a b"'
    assert_includes output, "NEVERBLOCK_HOME"
  end

  private

  def shell(code)
    program = "set -eu\n. #{LIBRARY.shellescape}/ui.sh\n#{code}"
    Open3.capture2e({"NB_LOGS" => @folder}, "bash", "-c", program, stdin_data: "left alone")
  end
end
