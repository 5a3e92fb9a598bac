# frozen_string_literal: true

# What Ruby's test/fiber finds in the place of its own sample scheduler when an
# exclusion is to be proved: the scheduler of the gem async.
#
# RubyGems is off in the tests, so the gems' folders go into the load path by hand.
home = ENV.fetch("CONFORMANCE_ASYNC")
$LOAD_PATH.concat(Dir[File.join(home, "gems/*/lib"), File.join(home, "extensions/*/*/*")])
require "async"

class Scheduler < Async::Scheduler
end
