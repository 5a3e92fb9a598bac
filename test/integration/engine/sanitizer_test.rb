# frozen_string_literal: true

# engines: every - each back end has memory of its own
# chaos: random stress under a tool that watches memory (25 s)

require "test_helper"
require "support/memory_tool"

# The random stress with an extension built with the address sanitizer, which reports each invalid access to memory.
# Skipped only if the compiler lacks it. test/integration/engine/valgrind_test.rb does the same with valgrind.
class SanitizerTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::MemoryTool

  def test_address_sanitizer
    runtime = `cc -print-file-name=libasan.so 2>/dev/null`.strip
    skip "the compiler has no address sanitizer (libasan.so)" unless File.absolute_path?(runtime)
    library = build("--enable-sanitizer")
    environment = {"LD_PRELOAD" => File.realpath(runtime), "RUBYOPT" => nil,
                   "ASAN_OPTIONS" => "detect_leaks=0:detect_stack_use_after_return=0:use_sigaltstack=0:abort_on_error=0:exitcode=77"}
    survives(environment, [RbConfig.ruby, "--disable=gems"], library, 3, 1)
    survives(environment, [RbConfig.ruby, "--disable=gems"], library, 3, 1, program: SERVER_STRESS)
  end

  private

  # Builds the extension aside: rake compile knows where, and whether it is up to date.
  def build(argument)
    program = <<~RUBY
      require "rake"
      include Rake::DSL
      load "rakelib/compile.rake"
      build = ExtensionBuild.new(variant: "sanitizer", arguments: [#{argument.dump}])
      $stdout.reopen($stderr)
      build.call
    RUBY
    _, errors, status = Open3.capture3(RbConfig.ruby, "-e", program, chdir: NeverBlockTest::ROOT)
    assert status.success?, errors
    File.join(NeverBlockTest::ROOT, "tmp", "#{RUBY_VERSION[/\d+\.\d+/]}-sanitizer", "lib")
  end
end
