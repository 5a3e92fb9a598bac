# frozen_string_literal: true

# chaos: random stress under tools that watch memory (50 s)

require "test_helper"
require "fileutils"
require "timeout"
require "tmpdir"

# The random stress under tools that see each wrong access to memory: an extension built with the address sanitizer,
# and valgrind. Skipped only where the tool is missing.
class SanitizerTest < Minitest::Test
  include NeverBlockTest::Helpers

  STRESS = File.join(NeverBlockTest::ROOT, "test", "support", "stress.rb")
  SERVER_STRESS = File.join(NeverBlockTest::ROOT, "test", "support", "server_stress.rb")

  def test_address_sanitizer
    runtime = `cc -print-file-name=libasan.so 2>/dev/null`.strip
    skip "the compiler has no address sanitizer (libasan.so)" unless File.absolute_path?(runtime)
    library = build("--enable-sanitizer")
    environment = {"LD_PRELOAD" => File.realpath(runtime), "RUBYOPT" => nil,
                   "ASAN_OPTIONS" => "detect_leaks=0:detect_stack_use_after_return=0:use_sigaltstack=0:abort_on_error=0:exitcode=77"}
    survives(environment, [RbConfig.ruby, "--disable=gems"], library, 3, 1)
    survives(environment, [RbConfig.ruby, "--disable=gems"], library, 3, 1, program: SERVER_STRESS)
  end

  def test_valgrind
    skip "valgrind is not installed" unless system("valgrind --version", out: File::NULL, err: File::NULL)
    # Ruby scans stacks for what may be pointers, so reads of the undefined are its own; a wrong address is not.
    command = %w[valgrind --quiet --error-exitcode=77 --undef-value-errors=no --max-stackframe=300000
      --num-callers=25] + ["--suppressions=#{suppressions}", RbConfig.ruby, "--disable=gems"]
    survives({"RUBYOPT" => nil}, command, File.join(NeverBlockTest::ROOT, "lib"), 4, 3)
    survives({"RUBYOPT" => nil}, command, File.join(NeverBlockTest::ROOT, "lib"), 4, 3, program: SERVER_STRESS)
  end

  private

  def survives(environment, command, library, seconds, seed, program: STRESS)
    command += ["-I", library, "-I", File.join(NeverBlockTest::ROOT, "lib"), program, seconds.to_s, seed.to_s]
    output, errors, status = Timeout.timeout(180) { Open3.capture3(environment, *command) }
    report = errors[/==\d+==.*/m] || errors
    assert status.success?, "seed #{seed}: #{status}\n#{report[0, 6000]}"
    assert_match(/\Asurvived \d+ (waits|requests)\n\z/, output)
  end

  # The extension, built aside: rake compile knows where and whether it is fresh.
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

  # Ruby's conservative marking reads below what valgrind takes for the stack; at its start Ruby 3.3 writes there.
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
