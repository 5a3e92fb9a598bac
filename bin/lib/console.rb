# frozen_string_literal: true

# The program of bin/console: irb with a prompt inside a loop, so that tasks go on while it waits for the next line.
#
#   irb(main):001> NeverBlock.spawn { sleep 1; puts "a second later" }
#   irb(main):002> NeverBlock.spawn { Net::HTTP.get(URI("http://127.0.0.1:8080/")) }.value
#
# A task that fails is reported. `exit` cancels the tasks that are left.
begin
  require "irb"
rescue LoadError
  abort "bin/console: Ruby #{RUBY_VERSION} is here without irb; install it: #{RbConfig.ruby} -S gem install irb"
end
require "net/http"
require "neverblock"

module NeverBlock
  # Ctrl-C ends the line that runs. Ruby handles signals in the loop's own fiber, where irb's error would end the loop.
  module ConsoleInterrupt
    class << self
      attr_accessor :prompt
    end

    def irb_abort(irb, exception = IRB::Abort)
      prompt = ConsoleInterrupt.prompt
      (Fiber.current == prompt) ? super : prompt.raise(exception, "abort then interrupt!")
    rescue FiberError # the line is inside an Enumerator of its own
      super
    end
  end
end
IRB.singleton_class.prepend(NeverBlock::ConsoleInterrupt)

NeverBlock.run(exit: :cancel, on_error: :report) do
  NeverBlock::ConsoleInterrupt.prompt = Fiber.current
  IRB.start
end
