# frozen_string_literal: true

# chaos: random stress under a tool that watches memory (25 s)

require "test_helper"
require "fileutils"
require "tmpdir"
require "support/memory_tool"

# The random stress under valgrind. Skipped only where valgrind is missing.
class ValgrindTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::MemoryTool

  def test_valgrind
    skip "valgrind is not installed" unless system("valgrind --version", out: File::NULL, err: File::NULL)
    # Ruby scans stacks for pointers, so reads of undefined memory are its own; reads of invalid addresses are not.
    command = %w[valgrind --quiet --error-exitcode=77 --undef-value-errors=no --max-stackframe=300000
      --num-callers=25] + ["--suppressions=#{suppressions}", RbConfig.ruby, "--disable=gems"]
    survives({"RUBYOPT" => nil}, command, File.join(NeverBlockTest::ROOT, "lib"), 4, 3)
    survives({"RUBYOPT" => nil}, command, File.join(NeverBlockTest::ROOT, "lib"), 4, 3, program: SERVER_STRESS)
  end

  private

  # Ruby's conservative marking reads below the stack pointer that valgrind assumes; Ruby 3.3 writes there when it
  # starts.
  SCANNERS = %w[gc_mark_maybe each_location rb_gc_mark_locations mark_locations_array gc_mark_machine_stack_location_maybe
    rb_gc_mark_machine_context rb_gc_location mark_current_machine_context].freeze
  private_constant :SCANNERS

  def suppressions
    @suppressions ||= File.join(Dir.mktmpdir.tap { |folder| Minitest.after_run { FileUtils.rm_rf(folder) } }, "ruby.supp").tap do |path|
      File.write(path, SCANNERS.map { |function| "{\n  #{function}\n  Memcheck:Addr8\n  fun:#{function}*\n  ...\n}\n" }.join +
        "{\n  reserve_stack\n  Memcheck:Addr1\n  fun:reserve_stack\n  ...\n}\n")
    end
  end
end
