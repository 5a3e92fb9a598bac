# frozen_string_literal: true

require "open3"
require "timeout"

module NeverBlockTest
  # Runs the random stress of the runtime, or that of the server, under a tool that checks memory accesses.
  #
  #   survives({}, %w[valgrind ruby], "lib", 4, 1)      # four seconds from seed 1
  module MemoryTool
    STRESS = File.join(ROOT, "test", "support", "stress.rb")
    SERVER_STRESS = File.join(ROOT, "test", "support", "server_stress.rb")

    # @param command [Array<String>] the tool and Ruby
    # @param library [String] the folder of the extension
    # @return [void]
    def survives(environment, command, library, seconds, seed, program: STRESS)
      command += ["-I", library, "-I", File.join(ROOT, "lib"), program, seconds.to_s, seed.to_s]
      output, errors, status = Timeout.timeout(180) { Open3.capture3(environment, *command) }
      report = errors[/==\d+==.*/m] || errors
      assert status.success?, "seed #{seed}: #{status}\n#{report[0, 6000]}"
      assert_match(/\Asurvived \d+ (waits|requests)\n\z/, output)
    end
  end
end
