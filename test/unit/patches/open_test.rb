# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "pathname"
require "tempfile"

# Opening FIFOs is tested in scheduler/effects_test.rb.
class OpenPatchTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs

  # Regression: on Ruby 3.4 each used another thread, at seven times the cost.
  def test_regular_files_need_no_thread
    assert_equal "0\n", assert_ruby(<<~RUBY)
      require "neverblock"
      require "pathname"
      require "tempfile"
      NeverBlock.run do
        Tempfile.create do |file|
          new = file.path + ".new"
          File.open(new, "w", 0o600) { |other| other << "text" }
          raise unless Pathname(new).open(&:read) == "text" && File.new(new, mode: "r").read == "text"
          File.delete(new)
          IO.for_fd(IO.sysopen(file.path)).close
          File.open(File.dirname(new)) {}
          raise unless (File.open(new) rescue $!.class) == Errno::ENOENT
        end
        p NeverBlock.stats[:pools][:opens][:threads]
      end
    RUBY
  end

  def test_a_fifo_does_not_hold_the_loop
    skip "Ruby 3.3 asks no scheduler" if RUBY_VERSION < "3.4"
    Dir.mktmpdir do |folder|
      File.mkfifo(path = "#{folder}/fifo")
      read = in_run do |scope|
        readers = [scope.spawn { File.open(path) { |fifo| fifo.gets(nil) } }, scope.spawn { IO.for_fd(IO.sysopen(path)).then { |io| io.read.tap { io.close } } }]
        readers.each { |reader| parked(reader) }
        File.open(path, "w") { |fifo| pass_until("both") { NeverBlock.stats[:pools][:opens].then { |pool| pool[:threads] == pool[:idle] } } && fifo.write("text") }
        readers.map(&:value)
      end
      assert_equal "text", read.join
    end
  end

  # A Tempfile isn't an IO. It has a path, and delegates other calls to its IO.
  def test_a_closed_tempfile_is_opened_by_its_path
    file = Tempfile.new("neverblock")
    file.write("abc")
    file.close
    assert_equal %w[abc abc], NeverBlock.run { [File.open(file) { |one| one.gets }, File.new(file).then { |one| one.read.tap { one.close } }] }
  ensure
    file&.unlink
  end

  def test_invalid_arguments_are_left_to_ruby
    calls = [-> { File.open }, -> { File.open(nil) }, -> { File.open("a\0b") }, -> { File.open("/nowhere/at/all") }, -> { File.new(99_999) },
      -> { File.open(__FILE__, "odd") }, -> { IO.sysopen(1) }, -> { File.open("/", "w") },
      -> { File.open(__FILE__.encode("UTF-16LE")) }, -> { File.open(Pathname(__FILE__), &:path) }, -> { File.open(File.open(__FILE__)) { |file| file.path.class } }]
    expected = calls.map { |call| outcome_of(call) }
    assert_equal expected, in_run { calls.map { |call| outcome_of(call) } }
  end

  private

  def outcome_of(call)
    call.call
  rescue => error
    [error.class, error.message]
  end
end
