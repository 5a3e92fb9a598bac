# frozen_string_literal: true

# slow: it starts programs with a debugger

require "test_helper"
require "pty"
require "tempfile"
require "timeout"

# binding.irb and the debugger inside a task, on a terminal. Other tasks run or are suspended as other threads would be;
# afterwards the terminal is restored.
class DebugTest < Minitest::Test
  include NeverBlockTest::Helpers

  def test_binding_irb
    session("binding.irb", "require 'irb'", prompt: /irb\(main\):\d+/) do |terminal, seen|
      terminal.write("answer * 2\r\n")
      wait_until("irb's answer") { seen.include?("=> 84") }
      terminal.write("exit\r\n")
    end
  end

  def test_the_debugger
    begin
      require "debug/version"
    rescue LoadError
      skip "the debug gem is not installed"
    end
    session("debugger", "require 'debug'", prompt: /\(rdbg\)|\(ruby\)/) do |terminal, seen|
      terminal.write("p answer * 2\r\n")
      wait_until("the debugger's answer") { seen.match?(/^84\r?$/) || seen.include?("=> 84") }
      terminal.write("continue\r\n")
    end
  end

  private

  # Runs a program that stops inside a task, on a terminal of its own, and lets the block talk to it.
  def session(stop, preparation, prompt:)
    Tempfile.create(["stop", ".rb"]) do |file|
      file.write(<<~RUBY)
        require "neverblock"
        #{preparation}
        NeverBlock.run do
          answer = 42
          ticker = NB.spawn { loop { sleep 0.01 } } # real: the loop sleeps beside the terminal
          NB.spawn do
            answer += 0
            #{stop}
            sleep 0.01 # real: the loop sleeps beside the terminal
            puts "went on with \#{answer}"
            ticker.cancel
          end
        end
        require "fcntl"
        puts "nonblocking: \#{[0, 1, 2].map { |fd| IO.for_fd(fd, autoclose: false).fcntl(Fcntl::F_GETFL) & File::NONBLOCK }}"
      RUBY
      file.close
      environment = {"TERM" => "dumb", "IRBRC" => File::NULL, "HOME" => File.dirname(file.path), "RUBY_DEBUG_NO_COLOR" => "1", "PAGER" => "cat",
                     "IRB_USE_AUTOCOMPLETE" => "false", "RUBY_DEBUG_NO_RELINE" => "1"}
      libraries = [*ENV["NEVERBLOCK_TEST_LIBRARY"], File.join(NeverBlockTest::ROOT, "lib")].flat_map { |folder| ["-I", folder] }
      output, input, pid = PTY.spawn(environment, RbConfig.ruby, *libraries, file.path)
      seen = +""
      reader = Thread.new do
        loop { seen << output.readpartial(65_536) }
      rescue Errno::EIO
        nil # the program has ended
      end
      begin
        wait_until("the prompt") { seen.match?(prompt) }
        yield input, seen
        wait_until("the end of the program") { seen.include?("nonblocking: ") }
      rescue Minitest::Assertion => error
        raise error.class, "#{error.message}; the terminal showed:\n#{seen}"
      ensure
        Process.kill(:KILL, pid)
        Process.wait(pid)
        reader.kill.join
        [output, input].each(&:close)
      end
      assert_includes seen, "went on with 42"
      assert_match(/nonblocking: \[0, 0, 0\]/, seen)
    end
  end
end
