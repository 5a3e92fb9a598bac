# frozen_string_literal: true

# Replaces the sample scheduler of Ruby's test/fiber in the proof of an exclusion: the scheduler of the gem async.
#
# RubyGems is off in the tests, so the gems' folders go into the load path by hand.
home = ENV.fetch("CONFORMANCE_ASYNC")
$LOAD_PATH.concat(Dir[File.join(home, "gems/*/lib"), File.join(home, "extensions/*/*/*")])
require "async"

class Scheduler < Async::Scheduler
end
