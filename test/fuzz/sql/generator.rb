# frozen_string_literal: true

require_relative "../runtime/plan"
require_relative "vocabulary"

module NeverBlockFuzz
  # Makes a program of fibers from a seed. All random choices are made here.
  #
  #   SqlGenerator.new(7).plan
  class SqlGenerator
    FIBERS = (3..8)
    STEPS = (4..12)
    TOPICS = 5 # words that a program has often, so that they meet
    private_constant :FIBERS, :STEPS, :TOPICS

    # @return [Array<Symbol>] the names of all words
    def self.operations = SqlVocabulary::WORDS.keys

    # @param seed [Integer]
    def initialize(seed)
      @seed = seed
      @random = Random.new(seed)
      @id = 0
    end

    # @return [Plan] the set-up, and a root for each fiber, which looks at its session in the end
    def plan
      api = pick(%i[records plain])
      setup = node(:setup, {api:, connections: pick([1, 2, 2, 2, 3, 4, 12]), multiplex: pick(%i[reads reads all]), prepared: pick([true, false])})
      words = SqlVocabulary::WORDS.values.select { |word| word.api.nil? || word.api == api }
      topics = Array.new(TOPICS) { weighted(words) }
      fibers = Array.new(@random.rand(FIBERS)) do |number|
        node(:fiber, {number:}, [*Array.new(@random.rand(STEPS)) { step((@random.rand < 0.6) ? topics : words) }, node(:look, {pause: 0, choice: 0})])
      end
      Plan.new(@seed, [setup, *fibers])
    end

    private

    def pick(list) = list[@random.rand(list.size)]

    def node(op, args, body = []) = Plan::Node.new(@id += 1, op, args, body)

    def step(words) = node(weighted(words).name, {pause: pick([0, 0, 0.01, 0.1]), choice: @random.rand(1000)})

    def weighted(words)
      left = @random.rand(words.sum(&:weight))
      words.find { |word| (left -= word.weight) < 0 }
    end
  end
end
