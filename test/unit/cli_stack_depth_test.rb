# frozen_string_literal: true

require "test_helper"
require "neverblock/cli"

# Ruby is started once more for fibers with larger stacks, and only once.
class CLIStackDepthTest < Minitest::Test
  include NeverBlockTest::Helpers

  OWN = {fiber_vm_stack_size: 131_072, fiber_machine_stack_size: 524_288}.freeze

  def test_what_is_missing
    assert_equal({"RUBY_FIBER_VM_STACK_SIZE" => "1048576", "RUBY_FIBER_MACHINE_STACK_SIZE" => "2097152"}, depth.needed)
    assert_equal({"RUBY_FIBER_MACHINE_STACK_SIZE" => "2097152"}, depth(vm: nil).needed)
    assert_equal({"RUBY_FIBER_VM_STACK_SIZE" => "1048576"}, depth(machine: 1_000).needed)
    assert_empty depth(vm: nil, machine: nil).needed
  end

  def test_what_the_user_has_set_is_left_alone
    env = {"RUBY_FIBER_VM_STACK_SIZE" => "1", "RUBY_FIBER_MACHINE_STACK_SIZE" => "1"}
    assert_empty depth(env:).needed
    depth(env:).ensure
    assert_equal %w[RUBY_FIBER_MACHINE_STACK_SIZE RUBY_FIBER_VM_STACK_SIZE], env.keys.sort
  end

  def test_the_second_time_only_cleans_up
    env = {"HOME" => "/", **depth.additions}
    depth(env:).ensure
    assert_equal({"HOME" => "/"}, env)
  end

  def test_a_ruby_that_does_not_obey_is_not_started_again
    env = {**depth.additions}
    depth(env:, sizes: OWN).ensure
    assert_empty env
  end

  def test_the_command_is_this_process_s
    assert_equal [RbConfig.ruby, "-w", "-Ilib", "exe/neverblock", "serve"],
      depth(command_line: %w[/usr/bin/ruby3.3 -w -Ilib exe/neverblock serve]).command
    [nil, [], ["bundle exec neverblock serve"]].each do |command_line|
      assert_equal [RbConfig.ruby, $PROGRAM_NAME, *ARGV], depth(command_line:).command - ["--yjit"]
    end
  end

  def test_a_whole_process
    output = assert_ruby(<<~RUBY)
      require "tempfile"
      Tempfile.create(["program", ".rb"]) do |file|
        file.write(<<~'PROGRAM')
          require "neverblock/cli/stack_depth"
          first = ENV["FIRST"] ||= Process.pid.to_s
          NeverBlock::CLI::StackDepth.new(vm: 1 << 20, machine: 2 << 20).ensure
          p RubyVM::DEFAULT_PARAMS.values_at(:fiber_vm_stack_size, :fiber_machine_stack_size)
          p [first == Process.pid.to_s, ARGV, $VERBOSE, ENV.keys.grep(/STACK/)]
          def down(depth) = depth.zero? ? 0 : 1 + down(depth - 1)
          p Fiber.new { down(9_000) }.resume
          $stdout.flush
        PROGRAM
        file.close
        system(RbConfig.ruby, "-w", *$LOAD_PATH.flat_map { |folder| ["-I", folder] }, file.path, "a b", "c", exception: true)
      end
    RUBY
    assert_equal ["[1048576, 2097152]", '[true, ["a b", "c"], true, []]', "9000"], output.lines(chomp: true)
  end

  # Code that YJIT sees for the first time takes the most of C's stack.
  def test_nine_thousand_calls_in_a_fiber_of_these_stacks
    directive = NeverBlock::Server::Directives::ALL[:stack_depth]
    environment = directive.settings.to_h do |setting|
      [NeverBlock::CLI::StackDepth::VARIABLES[setting.keyword], setting.default.to_s]
    end
    [[], ["--yjit"]].each do |options|
      next if options.any? && !defined?(RubyVM::YJIT)
      assert_equal "9000\n", assert_ruby(<<~RUBY, environment:, options:)
        Fiber.new { puts Object.new.instance_eval("def down(n) = n.zero? ? 0 : 1 + down(n - 1)\ndown(9_000)") }.resume
      RUBY
    end
  end

  private

  def depth(vm: 1 << 20, machine: 2 << 20, env: {}, sizes: OWN, command_line: ["ruby"])
    NeverBlock::CLI::StackDepth.new(vm:, machine:, env:, sizes:, command_line:)
  end
end
