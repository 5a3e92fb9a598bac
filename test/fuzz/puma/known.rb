# frozen_string_literal: true

require_relative "known_heads"

module NeverBlockPumaFuzz
  # The differences from Puma that are known: the rows of differences.rb. One that no row explains fails the run.
  #
  #   Known.rows(difference)     # => [#<struct Row what="two Cookie fields", …>]
  module Known
    # @!attribute what
    # @return [String]
    # @!attribute why
    # @return [String] why ours is right: a section of an RFC, Rack's SPEC, a directive, or "taste"
    # @!attribute kinds
    # @return [Array<Symbol>] of Comparison::Difference
    # @!attribute key
    # @return [String, Regexp, nil] of the difference; nil: any
    # @!attribute example
    # @return [Array<String, Symbol>] parts of a conversation that must show it
    # @!attribute judge
    # @return [Proc, nil] whether a difference of these kinds and this key is this one
    Row = Struct.new(:what, :why, :kinds, :key, :example, :judge) do
      def explains?(difference)
        kinds.include?(difference.kind) && (key.nil? || key === difference.key.to_s) && (judge.nil? || judge.call(difference))
      end
    end

    ROWS = [] # standard:disable Style/MutableConstant -- differences.rb fills it

    # @param difference [Comparison::Difference]
    # @return [Array<Row>] those that explain it
    def self.rows(difference) = ROWS.select { |row| row.explains?(difference) }

    # Adds a row.
    # @return [void]
    def self.row(what, why, kinds, key, example, &judge) = ROWS << Row.new(what, why, Array(kinds), key, Array(example), judge)

    # A request that we refuse and Puma takes.
    # @return [void]
    def self.refused(status, text, why, example) = row(text, why, :refusal, nil, example) { |one| one.puma.nil? && one.refused?(status, text) }

    # A response that we refuse to send, by a word of Apps::Respond.
    # @return [void]
    def self.not_sent(word, what, why)
      row("#{what}: #{word}", why, :refusal, nil, respond(word)) { |one| one.puma.nil? && one.ours.first == 500 && one.asks?(word) }
    end

    # @return [String] a request to Apps::Respond
    def self.respond(words, *lines, version: "1.1", method: "GET") = KnownHeads.head(*lines, request: "#{method} /respond?#{words} HTTP/#{version}")

    # @return [String] a request with a body in chunks
    def self.chunks(body) = KnownHeads.head("Transfer-Encoding: chunked", request: "POST / HTTP/1.1") + body.b
  end
end

require_relative "differences"
