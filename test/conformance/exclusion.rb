# frozen_string_literal: true

require "socket"
require "yaml"

module Conformance
  # One of Ruby's tests that is not expected to pass, with the reason, and the proof that no scheduler could make it
  # pass. Defined in exclusions.yml:
  #
  #   - file: test/ruby/test_fiber.rb
  #     test: TestFiber#test_transfer
  #     reason: expects that the current fiber is the thread's own
  #     proof: [async, sample]
  #
  # Kinds of proof, each of them a run of the test:
  #
  #   sample   it fails under the sample scheduler of Ruby's own test/fiber
  #   async    it fails under the scheduler of the gem async
  #
  # Optional: `ruby` ("< 4.0"), `engine`, `limit` (seconds after which it counts as hanging), `unless_resolved`
  # (a host name: the exclusion is for machines that cannot look it up).
  class Exclusion
    LIST = File.join(__dir__, "exclusions.yml")
    KEYS = %w[file test reason proof ruby engine limit unless_resolved].freeze
    PROOFS = %w[sample async].freeze

    # @return [Array<Exclusion>] those for the running Ruby and the engine
    def self.all(engine, list = LIST)
      (YAML.safe_load_file(list) || []).map { |entry| new(entry) }.select { |exclusion| exclusion.applies?(engine) }
    end

    attr_reader :file, :test, :reason, :proof, :limit

    def initialize(entry)
      @entry = entry
      @file, @test, @reason = %w[file test reason].map { |key| entry[key].to_s }
      @proof = Array(entry["proof"])
      @limit = entry.fetch("limit", 20)
      check
    end

    # @return [String] file and test, which name it uniquely
    def key = "#{file} #{test}"

    # @param engine [String, nil] such as "epoll"; nil: whatever the engine
    def applies?(engine)
      Gem::Requirement.new(*@entry.fetch("ruby", ">= 0").to_s.split(",")).satisfied_by?(Gem::Version.new(RUBY_VERSION)) &&
        (engine.nil? || [nil, engine].include?(@entry["engine"])) && !resolved?
    end

    private

    def resolved?
      return false unless (name = @entry["unless_resolved"])
      Addrinfo.getaddrinfo(name, nil).any?
    rescue SocketError
      false
    end

    def check
      problem =
        if (unknown = @entry.keys - KEYS).any? then "unknown keys #{unknown.join(", ")}"
        elsif file.empty? || !test.include?("#") then "needs `file`, and `test` as Class#method"
        elsif reason.length < 15 then "needs a reason"
        elsif proof.empty? || (proof - PROOFS).any? then "needs a proof: one or more of #{PROOFS.join(", ")}"
        end
      raise ArgumentError, "exclusions.yml: #{@entry.inspect}: #{problem}" if problem
    end
  end
end
