# frozen_string_literal: true

# One measurement of the offload_sizes benchmark, in a process of its own:
#
#   ruby child.rb neverblock inflate '{"size":2048,"place":"on a thread","seconds":0.02}'
#
# Does it twice as often again and again, until that takes long enough, which also warms it up. Prints one line of JSON.
require "json"
require "neverblock"
require_relative "../bench/meter"
require_relative "operations"

_, name, options = ARGV
options = JSON.parse(options, symbolize_names: true)
operation = Measured::Operations::ALL.fetch(name).make.call(options.fetch(:size))
places = {
  "in place" => -> { Fiber.blocking { operation.call } },
  "on a thread" => -> { NeverBlock::ThreadPool.operations.call(leave: :at_end) { operation.call } }
}
place = places.fetch(options.fetch(:place))
meter = Bench::Meter.new

NeverBlock.run(patches: false) do
  count = 1
  until meter.reading && meter.reading[:cpu] > options.fetch(:seconds)
    meter.measure(count) { count.times { place.call } }
    count *= 2
  end
end
puts JSON.generate(meter.reading)
