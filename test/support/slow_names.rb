# frozen_string_literal: true

require "fileutils"
require "tmpdir"

module NeverBlockTest
  # Programs under a resolver with configured answers and delays: see
  # slow_getaddrinfo.c, which is compiled here and preloaded into them.
  #
  #   include NeverBlockTest::SlowNames
  #   outcome = with_names({"slow.test" => {"127.0.0.1" => 500}}) { |names| assert_ruby(code, **names) }
  module SlowNames
    # The names that such a program has looked up.
    Resolver = Struct.new(:environment, :file) do
      # For the options of run_ruby and assert_ruby.
      def to_hash = {environment:}

      # @return [Array<String>] "name IPv4", "name IPv6" or "name any" for each look-up
      def questions = File.exist?(file) ? File.readlines(file, chomp: true) : []
    end

    # @param names [Hash{String=>Hash{String=>Integer}}] per name its addresses with the
    #   milliseconds each takes; "-4" and "-6" stand for no address after that time
    # @param nameinfo [Integer] milliseconds that every reverse look-up takes
    # @param gate [Boolean] whether all answers wait for the file that the program finds in
    #   NEVERBLOCK_TEST_GATE
    # @yieldparam resolver [Resolver]
    def with_names(names, nameinfo: 0, gate: false)
      skip "a resolver can only be preloaded on Linux" unless RUBY_PLATFORM.include?("linux")
      Dir.mktmpdir("neverblock-names") do |folder|
        list = names.map { |name, answers| "#{name}=#{answers.map { |address, delay| "#{delay}:#{address}" }.join(",")}" }
        questions = File.join(folder, "questions")
        environment = {
          "LD_PRELOAD" => SlowNames.library,
          "NEVERBLOCK_TEST_NAMES" => list.join(" "),
          "NEVERBLOCK_TEST_QUESTIONS" => questions,
          "NEVERBLOCK_TEST_NAMEINFO" => nameinfo.to_s,
          "NEVERBLOCK_TEST_GATE" => (File.join(folder, "gate") if gate)
        }
        yield Resolver.new(environment, questions)
      end
    end

    # Compiles it, once per process.
    # @return [String] the path of the shared library
    def self.library
      @library ||= begin
        folder = Dir.mktmpdir("neverblock-getaddrinfo")
        process = Process.pid
        at_exit { FileUtils.rm_rf(folder) if Process.pid == process }
        path = File.join(folder, "slow_getaddrinfo.so")
        source = File.join(__dir__, "slow_getaddrinfo.c")
        system("cc", "-O1", "-fPIC", "-shared", "-o", path, source, "-ldl", exception: true)
        path
      end
    end
  end
end
