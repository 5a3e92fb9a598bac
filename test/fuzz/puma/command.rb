# frozen_string_literal: true

require "stringio"
require "tempfile"
require_relative "client"
require_relative "comparison"
require_relative "generator"
require_relative "known"
require_relative "servers"
require_relative "shrinker"

module NeverBlockPumaFuzz
  # Compares the servers for some seconds, or with one seed again, and prints each difference that is not known.
  #
  #   Command.new(ENV).call      # => true if there was none
  class Command
    # Times that a difference must come again, with more and more patience for the servers.
    AGAIN = [1, 4, 16].freeze

    # @param environment [#[]] the variables that run.rb names
    # @param output [IO]
    def initialize(environment, output: $stdout)
      @environment = environment
      @output = output
      @drop = environment["DROP"].to_s.split(",").map { |number| Integer(number, 10) }
      @counts = Hash.new(0)
    end

    # @return [Boolean] whether all differences were known
    def call
      Servers.open(engine: @environment["ENGINE"]) do |servers|
        @servers = servers
        return known if @environment["KNOWN"]
        failed = conversations.count { |conversation| !passes?(conversation) }
        summary(failed)
      end
    end

    # @param conversation [Conversation]
    # @param patience [Integer]
    # @return [Array<Comparison::Difference>] the unknown ones, one of a signature
    def unknown(conversation, patience = 1)
      ours, puma = outcomes(conversation, patience).values_at(:ours, :puma)
      differences = Comparison.new(conversation, ours, puma).differences
      differences.reject { |difference| known?(difference) }.uniq(&:signature)
    end

    private

    # @return [Hash{Symbol=>Client::Outcome}]
    def outcomes(conversation, patience = 1)
      clients = @servers.ports.transform_values { |port| Client.new(port, rounds: Client::ROUNDS * patience) }
      clients.transform_values { |client| Thread.new { client.call(conversation) } }.transform_values(&:value)
    ensure
      clients&.each_key { |name| @servers.restart(name) unless @servers.running?(name) }
    end

    def known?(difference) = Known.rows(difference).each { |row| @counts[row] += 1 }.any?

    def integer(name)
      value = @environment[name].to_s
      Integer(value, 10) unless value.empty?
    end

    # @return [Enumerator::Lazy] the one of SEED, so many as REQUESTS says, or as many as there is time for
    def conversations
      return [Generator.new(integer("SEED")).conversation.without(@drop)] if integer("SEED")
      first = integer("FROM") || Random.new_seed % 1_000_000_000
      @output.puts "seeds from #{first}"
      count = integer("REQUESTS")
      ends_at = now + (integer("SECONDS") || 60)
      (first..).lazy.take_while { |seed| count ? seed < first + count : now < ends_at }.map { |seed| Generator.new(seed).conversation }
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    def passes?(conversation)
      @counts[:conversations] += 1
      @output.puts conversation if @environment["SHOW"]
      found = unknown(conversation)
      return true if found.empty?
      first = found
      signatures = found.map(&:signature)
      AGAIN.each { |patience| signatures &= unknown(conversation, patience).map(&:signature) }
      found = found.select { |difference| signatures.include?(difference.signature) }
      found.empty? ? tell_once(conversation, first) : tell(conversation, found)
      found.empty?
    end

    def tell_once(conversation, found)
      @counts[:once] += 1
      @output.puts "seed #{conversation.seed} differed once, and not again:", found.map { |difference| "  #{difference}" }
    end

    def tell(conversation, found)
      smaller, dropped = Shrinker.new(self, conversation, found).call
      @output.puts "seed #{conversation.seed} differs; again: #{replay(conversation)}; the smallest: #{replay(conversation, dropped)}"
      @output.puts smaller, unknown(smaller).map { |difference| "  #{difference}" }
      outcomes(smaller).each { |name, outcome| @output.puts "  #{name}, #{outcome.ending}: #{outcome.bytes.byteslice(0, 4_000).dump}" }
      @output.puts "  our log: #{@servers.errors(:ours)}"
      @output.flush
    end

    def replay(conversation, dropped = [])
      facts = {"SEED" => conversation.seed, "ENGINE" => @environment["ENGINE"], "DROP" => (@drop | dropped).sort.join(",")}
      "rake fuzz:puma #{facts.filter_map { |name, value| "#{name}=#{value}" unless value.to_s.empty? }.join(" ")}"
    end

    def summary(failed)
      rows = @counts.count { |key, _| Known::Row === key }
      @output.puts "#{@counts[:conversations]} conversations, #{rows} of #{Known::ROWS.size} known differences met, #{@counts[:once]} differed once, #{failed} differ"
      failed.zero? && @counts[:conversations].positive?
    end

    # Each row must still be needed.
    def known
      idle = Known::ROWS.reject do |row|
        @counts.clear
        unknown(Conversation.new(0, row.example))
        @counts[row].positive?
      end
      @output.puts idle.map { |row| "not needed any more: #{row.kinds.join("/")} #{row.what}: #{row.example.join.inspect}" }, "#{Known::ROWS.size} known differences, #{idle.size} not needed"
      idle.empty?
    end
  end
end
