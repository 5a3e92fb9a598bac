# frozen_string_literal: true

# Runs files of Active Record's own tests in one process, with Rails' adapter or with ours inside a loop,
# and writes events at once, as JSON lines, into the file CONFORMANCE_EVENTS.
#
# CONFORMANCE_PLAN is a JSON file: {"surroundings": "neverblock", "files": [...], "only": null, "except": []}
require "json"
require "minitest"
require "minitest/mock"

module Child
  PLAN = JSON.parse(File.read(ENV.fetch("CONFORMANCE_PLAN")))
  EVENTS = ENV.fetch("CONFORMANCE_EVENTS")
  PROCESS = Process.pid
  LINES = 15 # of a backtrace
  SEED = 1 # for the same order in all surroundings

  module_function

  # Processes that a test forks report nothing.
  def tell(event, **details)
    File.write(EVENTS, "#{JSON.generate({event:, **details})}\n", mode: "a") if Process.pid == PROCESS
  end

  # An anonymous class has another name in each process.
  def id(suite, method) = "#{suite}##{method}".gsub(/0x\h+/, "0x")

  def chosen?(id) = PLAN["only"] ? PLAN["only"].include?(id) : !PLAN["except"].include?(id)

  # Text of any encoding, converted for JSON.
  def text(string) = string.to_s.dup.force_encoding(Encoding::UTF_8).scrub("?")[0, 4000]

  # Prepended to Minitest::Test.
  module Told
    def run
      id = Child.id(self.class, name)
      Child.tell("start", test: id)
      super.tap { |result| Child.tell("done", test: id, **Child.judged(result)) }
    end
  end

  def judged(result)
    status = if result.passed? then "passed"
    elsif result.skipped? then "skipped"
    else "failed"
    end
    worst = result.failures.find { |failure| !failure.is_a?(Minitest::Skip) } || result.failures.first
    error = worst.respond_to?(:error) ? worst.error : worst
    {status:, assertions: result.assertions, time: result.time.round(3), message: (text("#{error.class}: #{error.message}") if error),
     detail: (text(error.backtrace.to_a.first(LINES).join("\n")) if error)}
  end

  # Prepended to Minitest::Test's singleton class.
  module Chosen
    def runnable_methods = super.select { |method| Child.chosen?(Child.id(self, method)) }
  end

  # The files are loaded inside the loop too: their classes own connections.
  def run
    PLAN.fetch("files").each { |file| load_file(file) }
    Minitest.seed = SEED # needed for the list of tests already
    tell("tests", tests: Minitest::Runnable.runnables.flat_map { |suite| suite.runnable_methods.map { |method| id(suite, method) } })
    Minitest.run(["--seed", SEED.to_s, "--verbose"])
    tell("end", load_failed: false)
  rescue ScriptError, StandardError => error
    warn error.full_message(highlight: false)
    tell("end", load_failed: true)
  end

  # Rails' tests of load_async wait for its thread executor, which is idle if queries run in fibers: makes them wait for
  # those.
  module Future
    ALL = []

    def schedule!(...) = super.tap { ALL << self }
  end

  # Replaces Rails' own wait.
  module Waiting
    private

    def wait_for_async_query(*, **) = (sleep 0.001 while Future::ALL.any?(&:pending?))
  end

  # To find connections that a test has left behind, Rails joins the threads that hold them, for half a second; fibers
  # can't be joined.
  module Joining
    LIMIT = 0.5

    private

    def check_connection_leaks
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + LIMIT
      sleep 0.001 while in_other_fibers? && Process.clock_gettime(Process::CLOCK_MONOTONIC) < deadline
      super
    end

    def in_other_fibers?
      ActiveRecord::Base.connection_handler.each_connection_pool.any? do |pool|
        pool.connections.any? { |connection| Fiber === connection.owner && connection.owner != Fiber.current }
      end
    end
  end

  # Each series has the helper in another place.
  def wait_for_fibers
    ActiveRecord::TestCase.prepend(Joining)
    ActiveRecord::TestCase::WaitForAsyncTestHelper.prepend(Waiting) if defined?(ActiveRecord::TestCase::WaitForAsyncTestHelper)
    ActiveRecord::WaitForAsyncTestHelper.prepend(Waiting) if defined?(ActiveRecord::WaitForAsyncTestHelper)
  end

  # Some files need gems that are missing here, with either adapter.
  def load_file(file)
    require file
    wait_for_fibers unless PLAN.fetch("surroundings") == "stock"
  rescue LoadError => error
    raise if error.path.nil? || error.path.include?("/")
    tell("unloadable", file:, message: text(error.message))
  end

  def within
    return yield if PLAN.fetch("surroundings") == "stock"
    $LOAD_PATH.unshift(ENV.fetch("NEVERBLOCK_LIB"))
    require "neverblock"
    require "neverblock/active_record"
    ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
    ActiveRecord::FutureResult.prepend(Future)
    # Tests know adapters by their classes' names.
    ActiveRecord::ConnectionAdapters.resolve(ENV.fetch("ARCONN")).define_singleton_method(:name) { superclass.name }
    NeverBlock.run { yield }
  end
end

Minitest.singleton_class.define_method(:autorun) {} # they run at a chosen place
Minitest::Test.prepend(Child::Told)
Minitest::Test.singleton_class.prepend(Child::Chosen)
Child.within { Child.run }
