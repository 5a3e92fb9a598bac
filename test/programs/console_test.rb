# frozen_string_literal: true

# slow: it starts irb

require "test_helper"

# bin/console: irb with a prompt inside a loop.
class ConsoleTest < Minitest::Test
  include NeverBlockTest::Helpers

  PROGRAM = File.join(NeverBlockTest::ROOT, "bin", "lib", "console.rb")
  # irb comes with Ruby, and is not in the bundle of the tests.
  CLEAN = {"RUBYOPT" => nil, "RUBYLIB" => nil, "BUNDLE_GEMFILE" => nil, "IRBRC" => File::NULL}.freeze

  def setup
    skip "this Ruby has no irb" unless system(CLEAN, RbConfig.ruby, "-e", 'require "irb"', err: File::NULL)
    @irb = IO.popen([CLEAN, RbConfig.ruby, "-I#{NeverBlockTest::ROOT}/lib", PROGRAM, "-f", "--nocolorize", {err: %i[child out]}], "r+")
    @output = +""
  end

  def teardown
    return unless @irb
    Process.kill(:KILL, @irb.pid) unless @irb.closed?
    @irb.close unless @irb.closed?
  end

  def test_tasks_go_on_while_the_prompt_waits
    type 'NeverBlock.spawn { sleep 0.01; puts "la" + "ter" }; 1'
    await(/^later/)
    type 'NeverBlock.spawn { sleep 0.01; "va" + "lue" }.value'
    await(/^"value"/)
  end

  def test_a_task_that_fails_is_reported_and_the_prompt_goes_on
    type 'NeverBlock.spawn { raise "oo" + "ps" }; sleep 0.01; 1'
    await(/oops \(RuntimeError\)/)
    type "20 + 2"
    await(/^22\b/)
  end

  def test_an_interrupt_ends_the_line_and_not_the_loop
    type "NeverBlock.spawn { sleep }; Object.const_set(:LINE, Thread.new { sleep 0.1 until $go; Process.kill(:INT, $$) }); $go = true; sleep"
    await(/IRB::Abort/)
    type "20 + 3"
    await(/^23\b/)
    type 'NeverBlock.spawn { "st" + "ill" }.value'
    await(/^"still"/)
  end

  def test_exit_cancels_the_tasks_that_are_left
    type 'NeverBlock.spawn { sleep } && puts("spaw" + "ned")'
    await(/spawned/)
    type "exit"
    wait_until("its end") { @irb.read_nonblock(4096, exception: false).nil? }
    @irb.close
    assert_predicate $?, :success?
  end

  private

  def type(line) = @irb.puts(line)

  def await(pattern)
    wait_until(pattern.inspect) do
      text = @irb.read_nonblock(4096, exception: false)
      flunk "irb has ended: #{@output}" if text.nil?
      @output << text if text.is_a?(String)
      @output.match?(pattern)
    end
    @output.clear
  end
end
