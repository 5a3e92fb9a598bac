# frozen_string_literal: true

module NeverBlockTest
  # The app of the tests that do an operator's work on a server.
  module OperatedApp
    # @param body [String] its answer to ordinary requests
    # @return [String] a config.ru
    def self.text(body = "first")
      <<~RUBY
        body = #{body.dump}
        run ->(env) {
          case env["PATH_INFO"]
          when "/pid" then next [200, {}, [Process.pid.to_s]]
          when "/env" then next [200, {}, [ENV.keys.grep(/NEVERBLOCK_(?:TEMPLATE|SUCCESSION|BOOT)|NOTIFY/).inspect]]
          when "/spin" then loop {}
          when "/stand" then Thread.pass until File.exist?(env["QUERY_STRING"])
          when "/hold" then sleep while true
          when "/until" then sleep(0.01) until File.exist?(env["QUERY_STRING"]) # real: the test's process makes the file
          when "/sleep" then sleep(Float(env["QUERY_STRING"])) # real: the request's process may be stopped now
          when "/print" then puts("printed")
          when "/read" then env["rack.input"].read
          when "/collect" then 2.times { GC.start }
          end
          [200, {}, [body]]
        }
      RUBY
    end
  end
end
