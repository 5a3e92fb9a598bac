# frozen_string_literal: true

# The benchmarks, each in processes of its own with its own gems:
#
#   rake benchmark:runtime             # as bin/bench runtime
#   rake benchmark:quick               # the shape of all of them
namespace :benchmark do
  command = File.expand_path("../bin/bench", __dir__)

  # bin/bench chooses Ruby and gems by itself.
  bench = lambda do |*arguments|
    Bundler.with_unbundled_env { system(command, *arguments, exception: true) }
  end

  %w[runtime delays fibers servers proxied rails database cost active_record http_ratios rails_workloads rails_sqlite].each do |name|
    desc "Measure: bin/bench #{name}"
    task(name) { bench.call(name) }
  end

  desc "The shape of all benchmarks, in a few minutes"
  task(:quick) { bench.call("all", "--quick") }
end
