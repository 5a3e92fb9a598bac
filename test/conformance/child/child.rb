# frozen_string_literal: true

# Loaded with -r into each process that runs one file of Ruby's tests. It runs the chosen tests in the chosen
# surroundings and writes events at once, as JSON lines, into the file CONFORMANCE_EVENTS.
#
# CONFORMANCE_PLAN is a JSON file: {"surroundings": "neverblock", "only": null, "except": []}
require File.join(ENV.fetch("CONFORMANCE_SOURCE"), "tool/test/init")
require "json"
require_relative "surroundings"

module Child
  PLAN = JSON.parse(File.read(ENV.fetch("CONFORMANCE_PLAN")))
  EVENTS = ENV.fetch("CONFORMANCE_EVENTS")
  PROCESS = Process.pid
  AROUND = Surroundings.named(PLAN.fetch("surroundings"))

  module_function

  # Opened anew for each line, so that the tests see no extra descriptor. Processes that a test forks report nothing.
  def tell(event, **details)
    File.write(EVENTS, "#{JSON.generate({event:, **details})}\n", mode: "a") if Process.pid == PROCESS
  end

  def chosen?(id) = PLAN["only"] ? PLAN["only"].include?(id) : !PLAN["except"].include?(id)

  # Text of any encoding, converted for JSON.
  def text(string) = string.to_s.dup.force_encoding(Encoding::UTF_8).scrub("?")[0, 4000]

  # Prepended to TestCase: the whole test, set-up and tear-down included, goes inside.
  module Inside
    def run(runner)
      id = "#{self.class}##{__name__}"
      Child.tell("start", test: id)
      value = AROUND.call { super }
      Child.tell("done", test: id, **runner.conformance_result)
      value
    end
  end

  # Prepended to TestCase's singleton class.
  module Chosen
    def test_methods = super.select { |method| Child.chosen?("#{self}##{method}") }
  end

  # Prepended to the runner.
  module Listener
    def _run_suites(suites, type)
      Child.tell("tests", tests: suites.flat_map { |suite| suite.test_methods.map { |method| "#{suite}##{method}" } })
      super
    end

    # Called once for the test, and again if its tear-down fails: the worse result counts.
    def record(suite, method, assertions, time, error, *)
      super
      status = case error
      when nil then "passed"
      when Test::Unit::PendedError then "skipped"
      else "failed"
      end
      return if @conformance_result && status != "failed"
      message = "#{error.class}: #{Child.text(error.message)}" if error
      detail = Child.text(error.backtrace.to_a.first(15).join("\n")) if error
      @conformance_result = {status:, assertions:, time: time.round(3), message:, detail:}
    end

    def conformance_result
      @conformance_result || {status: "failed", assertions: 0, time: 0, message: "the test ended without a result", detail: nil}
    ensure
      @conformance_result = nil
    end

    def _run(*)
      super.tap { Child.tell("end", load_failed: !!@load_failed) }
    end
  end
end

Test::Unit::TestCase.prepend(Child::Inside)
Test::Unit::TestCase.singleton_class.prepend(Child::Chosen)
Test::Unit::AutoRunner::Runner.prepend(Child::Listener)
