# frozen_string_literal: true

# The measured functions of NeverBlock, as users call them.
require "neverblock"
require_relative "base"
require_relative "hooks"

module Workloads
  class NeverBlock < Base
    include Hooks

    def engine = ::NeverBlock.engine.to_s

    def spawn(count)
      enter { measure(count) { count.times { ::NeverBlock.spawn {}.join } } }
    end

    def spawn_value(count)
      enter { measure(count) { count.times { ::NeverBlock.spawn {}.value } } }
    end

    def spawn_burst(count)
      enter do
        bursts = count / AMONG
        measure(bursts * AMONG) { bursts.times { Array.new(AMONG) { ::NeverBlock.spawn {} }.each(&:join) } }
      end
    end

    def yield_alone(count)
      enter { measure(count) { count.times { ::NeverBlock.pass } } }
    end

    def yield_among(count)
      each = count / AMONG
      enter do
        measure(each * AMONG) do
          Array.new(AMONG) { ::NeverBlock.spawn { each.times { ::NeverBlock.pass } } }.each(&:join)
        end
      end
    end

    def own_timeout(count)
      enter { measure(count) { count.times { ::NeverBlock.timeout(PATIENCE) {} } } }
    end

    def empty_run(count)
      ::NeverBlock.run {}
      measure(count) { count.times { ::NeverBlock.run {} } }
    end

    private

    def enter(&) = ::NeverBlock.run(&)

    def start(&) = ::NeverBlock.spawn(&)

    def join(task) = task.join

    def pass = ::NeverBlock.pass
  end
end
