# frozen_string_literal: true

module Conformance
  module Applications
    # NeverBlock's: its log tells what a request waits for that takes long; nothing else is said to it.
    CONFIGURATION = File.join(__dir__, "neverblock.conf.rb")

    # A server that serves the applications, in one process, with what it does when it is told nothing but its threads.
    #
    #   Contestant.all.map(&:name)                    # => ["neverblock", "puma 3", "puma 5"]
    #   Contestant.all.first.command(3000)            # => ["neverblock", "serve", ...]
    Contestant = Struct.new(:name, :threads) do
      # Puma with the threads that `rails new` writes, and with those that are Puma's own.
      # @return [Array<Contestant>] ours first
      def self.all = [new("neverblock"), new("puma 3", 3), new("puma 5", 5)]

      # @return [Boolean]
      def ours? = threads.nil?

      # An application's own configuration is of how many processes it had; another one takes its place.
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
