# frozen_string_literal: true

require "timeout"

# Sleeping, time limits, and code loaded while the loop runs.
WhatBlocks::Catalogue.define "Time" do
  wait = WhatBlocks::Stage::WAIT

  waits("Kernel#sleep") { measure(Integer) { sleep wait } }
  quick("Kernel#sleep", "0, while others are ready") do
    Fiber.schedule { 100.times { sleep 0 } }
    measure(0) { sleep 0 }
  end
  waits("Timeout.timeout", "sleeping block") { measure(Timeout::Error) { raised { Timeout.timeout(wait) { sleep 5 } } } }
  waits("Timeout.timeout", "block that waits for a pipe") do
    reader, _writer = IO.pipe
    measure(Timeout::Error) { raised { Timeout.timeout(wait) { reader.read } } }
  end
  waits("Timeout.timeout", "block that waits for a mutex") do
    mutex = held(Mutex.new, :lock, :unlock, 5)
    measure(Timeout::Error) { raised { Timeout.timeout(wait) { mutex.lock } } }
  end
  waits("Timeout.timeout", "own exception class") { measure(IOError) { raised { Timeout.timeout(wait, IOError) { sleep 5 } } } }
  quick("Timeout.timeout", "block that ends in time") { measure(1) { Timeout.timeout(5) { 1 } } }
  computes("Timeout.timeout", "loop { }, ended at the limit") do
    measure(Timeout::Error) { raised { Timeout.timeout(0.5) { loop {} } } }
  end
  waits("Enumerator#next", "the block sleeps") do
    enumerator = Enumerator.new { |yielder| yielder << (sleep(wait) && 1) }
    measure(1) { enumerator.next }
  end
  waits("Fiber#resume", "the fiber sleeps") { measure(1, Fiber.new { sleep(wait) && 1 }) { |fiber| fiber.resume } }
  waits("Fiber.blocking", "the block sleeps") { measure(Integer) { Fiber.blocking { sleep wait } } }
  quick("Kernel#require") do
    path = File.join(folder, "required.rb")
    File.write(path, "REQUIRED = 1\n")
    measure(true) { require path }
  end
  quick("Kernel#load") { measure(true, file("LOADED = 1\n")) { |path| load path } }
  quick("Module#autoload", "first use of the constant") do
    path = File.join(folder, "autoloaded.rb")
    File.write(path, "AutoloadedHere = 1\n")
    Object.autoload(:AutoloadedHere, path)
    measure(1) { Object.const_get(:AutoloadedHere) }
  end
  waits("Kernel#require", "another thread is loading it") do
    path = File.join(folder, "required.rb")
    File.write(path, "#{ruby_pause}\n")
    Thread.new { require path }
    Thread.pass until Thread.list.any? { |thread| thread.backtrace&.first&.include?(path) }
    measure(false) { require path }
  end
end
