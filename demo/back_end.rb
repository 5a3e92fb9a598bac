# frozen_string_literal: true

# The slow server as a process of its own, ended together with the block, or with
# the process that started it, whatever becomes of that.
#
#   Demo::BackEnd.open(delay: 1.0) do |back_end|
#     Net::HTTP.get(back_end.uri("/7"))      # => "you asked for /7", a second later
#   end
require "json"
require "net/http"
require "rbconfig"
require "uri"

module Demo
  class BackEnd
    ROOT = File.expand_path("..", __dir__)
    SERVER = File.join(__dir__, "slow_server.rb")
    START_LIMIT = 60 # seconds until it must listen

    # @param delay [Float] seconds before each answer
    # @param program [String] the program: the slow server, or a similar one
    # @param options [Array<String>] further ones of the program
    # @param language [String] the command that runs it; nil: this Ruby
    # @yieldparam back_end [BackEnd]
    # @return [Object] the block's value
    def self.open(delay:, program: SERVER, options: [], language: nil)
      back_end = new(delay, language ? [language, program] : [*ruby, program], options)
      yield back_end
    ensure
      back_end&.close
    end

    # @return [Array<String>] the command
    def self.ruby
      libraries = $LOAD_PATH.grep(/#{Regexp.escape(ROOT)}/o).flat_map { |folder| ["-I", folder] }
      [RbConfig.ruby, "--disable=gems", *libraries]
    end
    private_class_method :ruby

    # @param delay [Float] seconds before each answer
    # @param command [Array<String>]
    # @param options [Array<String>]
    def initialize(delay, command, options)
      @delay = delay
      input, @lifeline = IO.pipe
      output, ready = IO.pipe
      # A process group of its own: Ctrl-C in the terminal is for the demo alone.
      @pid = Process.spawn(*command, "--child", "--port", "0", "--delay", delay.to_s, *options, in: input, out: ready, pgroup: true)
      [input, ready].each(&:close)
      raise "the demo's server did not start within #{START_LIMIT} s" unless output.wait_readable(START_LIMIT)
      @base = output.gets&.chomp or raise "the demo's server ended at once: its message is above"
      output.close
    end

    # @return [Float] seconds before each answer
    attr_reader :delay

    # @param target [String] path and query
    # @return [URI::HTTP]
    def uri(target) = URI.join(@base, target)

    # @return [Hash{String=>Integer}] as the server counted: "served" and "most_at_once", or those of another program
    def stats = JSON.parse(Net::HTTP.get(uri("/stats")))

    # Ends the server.
    def close
      return unless @lifeline
      @lifeline.close
      @lifeline = nil
      Process.wait(@pid)
    end
  end
end
