# frozen_string_literal: true

# The report of Report from an app that is not Ruby and knows nothing of a cache, behind `neverblock proxy`: how often the
# app is asked, and when the clients have it, with and without the proxy's collapsing.
#
#   outcome = Demo::ProxiedReport.new(screen, delay: 2.0).run("--collapse=same-url", clients: 500, options: %w[--ttl 20])
#   outcome.calls, outcome.last      # => 1, 2.4
require_relative "report"

module Demo
  class ProxiedReport < Report
    APP = File.join(__dir__, "report_server.pl")
    PROXY = File.join(__dir__, "proxy.rb")
    LANGUAGE = "perl"

    # @return [String, nil] what is missing for it
    def self.missing
      found = ENV.fetch("PATH", "").split(File::PATH_SEPARATOR).any? { |folder| File.executable?(File.join(folder, LANGUAGE)) }
      "#{LANGUAGE} is not installed" unless found
    end

    # @param way [String] the proxy's option
    # @param clients [Integer] that ask at once
    # @param options [Array<String>] further ones of the proxy
    # @return [Outcome]
    def run(way, clients:, options: [])
      BackEnd.open(delay: @delay, program: APP, language: LANGUAGE) do |app|
        BackEnd.open(delay: @delay, program: PROXY, options: ["--", "--upstream", app.uri("/").to_s, way, *options]) do |proxy|
          outcome(way, clients, proxy) { app.stats["calls"] }
        end
      end
    end
  end
end
