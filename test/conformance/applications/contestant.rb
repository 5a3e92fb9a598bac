# frozen_string_literal: true

module Conformance
  module Applications
    # NeverBlock's configuration: it logs the waits of slow requests, and sets nothing else.
    CONFIGURATION = File.join(__dir__, "neverblock.conf.rb")

    # A server for the applications, in one process, with default settings except for its threads.
    #
    #   Contestant.all.map(&:name)                    # => ["neverblock", "puma 3", "puma 5"]
    #   Contestant.all.first.command(3000)            # => ["neverblock", "serve", ...]
    Contestant = Struct.new(:name, :threads) do
      # Puma with the threads of `rails new`, and with Puma's own default.
      # @return [Array<Contestant>] ours first
      def self.all = [new("neverblock"), new("puma 3", 3), new("puma 5", 5)]

      # @return [Boolean]
      def ours? = threads.nil?

      # Replaces the application's own configuration, which is for another number of processes.
      # @param port [Integer]
      # @return [Array<String>]
      def command(port)
        address = "tcp://127.0.0.1:#{port}"
        return ["neverblock", "serve", "-C", CONFIGURATION, "-e", "production", "-b", address] if ours?
        ["puma", "-C", File::NULL, "-w", "0", "-t", "#{threads}:#{threads}", "-e", "production", "-b", address]
      end

      # @return [Hash{String=>String}]
      def environment = ours? ? {} : {"RAILS_MAX_THREADS" => threads.to_s}

      def to_s = name
    end
  end
end
