# frozen_string_literal: true

# Loaded before an application's own suite: runs all its tests in the first fiber of one loop. The application loads
# NeverBlock itself.
require "minitest"

start = %i[__run run_all_suites].find { |name| Minitest.respond_to?(name) } # of Minitest 5 and 6
Minitest.singleton_class.prepend(Module.new { define_method(start) { |*arguments| NeverBlock.run { super(*arguments) } } })
