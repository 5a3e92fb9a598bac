# frozen_string_literal: true

# Required before a Minitest file: runs all its tests in the first fiber of one loop.
require "neverblock"
require "minitest/autorun"

Minitest.singleton_class.prepend(Module.new { def __run(...) = NeverBlock.run { super } })
