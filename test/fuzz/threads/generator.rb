# frozen_string_literal: true

require_relative "../runtime/plan"
require_relative "vocabulary"

module NeverBlockFuzz
  # Makes a program of strands from a seed. All random choices are made here.
  #
  #   StrandsGenerator.new(7).plan
  #
  # The outcome doesn't depend on the schedule: each step begins when all stands still, only one strand reads from a
  # resource or writes to it, and a step that time alone ends is waited for.
  class StrandsGenerator
    # A variable: what it is, the strands that read and write, the resource of the other end, and the strand whose block
    # ends it.
    Resource = Struct.new(:name, :kinds, :reader, :writer, :peer, :holder)

    STRANDS = %w[one two three].freeze
    HOSTS = {"fibers" => 70, "loops" => 15, "crowd" => 15}.freeze
    SETUPS = {
      reaper: "trap(:CHLD) { begin; nil while Process.wait(-1, Process::WNOHANG); rescue Errno::ECHILD; end }",
      handler: 'trap(:CHLD) { "nothing" }'
    }.freeze
    FIXED = {"q1" => %i[queue], "q2" => %i[queue], "s1" => %i[sized], "m1" => %i[mutex], "m2" => %i[mutex], "c1" => %i[condition], "n1" => %i[monitor]}.freeze
    MADE = {
      pipe: [%i[input pipe_input io], %i[output pipe_output io]], pair: [%i[input output io socket]] * 2, server: [%i[server io]], file: [%i[file io]], process_io: [%i[input output io]],
      process_input: [%i[output io]], child: [%i[child], %i[gate]], gate: [%i[end], %i[gate]]
    }.freeze
    CLOSES = %i[close close_half reopen].freeze
    MOST = 14 # resources
    private_constant :CLOSES, :MOST, :Resource, :STRANDS, :HOSTS, :SETUPS, :FIXED, :MADE

    # @return [Array<Symbol>] the names of all words
    def self.operations = Vocabulary::WORDS.keys + Vocabulary::BLOCKS.keys + %i[leave setup]

    # @param seed [Integer]
    def initialize(seed)
      @seed = seed
      @random = Random.new(seed)
      @id = 0
      @blocked = {} # strand => the resource that it probably waits for
      @wishes = []
      @names = Hash.new(0)
    end

    # @return [Plan] the set-up, and a root for each strand
    def plan
      host = weighted(HOSTS)
      @alone = host == "fibers"
      setup = SETUPS.keys.select { chance(0.2) }.map { |name| node(:setup, code: SETUPS[name]) }
      @roots = STRANDS.to_h { |name| [name, node(:strand, name:)] }
      @open = STRANDS.to_h { |name| [name, [@roots[name]]] }
      @resources = @random.rand(1..3).times.map { pick(FIXED.keys) }.uniq.map { |name| fixed(name) }
      @resources.concat(STRANDS.map { |name| Resource.new(name, %i[strand]) })
      @topics = topics
      first = node(:setup, host:)
      first.body.concat(setup)
      @random.rand(8..26).times { step }
      Plan.new(@seed, [first, *@roots.values])
    end

    private

    def chance(part) = @random.rand < part

    def pick(list) = list[@random.rand(list.size)]

    def weighted(table)
      left = @random.rand(table.values.sum)
      table.each { |name, weight| return name if (left -= weight) < 0 }
    end

    def node(op, args = {}) = Plan::Node.new(@id += 1, op, args.compact, [])

    # A condition variable needs its mutex.
    def fixed(name) = Resource.new(name, FIXED[name], nil, nil)

    # A program has a few kinds of new resources only, so that its steps meet.
    def topics = Array.new(@random.rand(1..3)) { pick(MADE.keys) }

    def step
      choices = [[:say, 80], [:open, 8], [:leave, 12]].to_h
      case weighted(choices)
      when :open then open
      when :leave then leave || say
      else say
      end
    end

    # A strand that probably waits gets a step rarely: it would be too late for it.
    def free(strands = STRANDS)
      able = strands - @blocked.keys
      (able.empty? || chance(0.05)) ? pick(strands) : pick(able)
    end

    def say
      return if @wishes.any? && chance(0.7) && fulfil(@wishes.pop)
      60.times { target.then { |one| return true if add(word(one), one) } }
    end

    # What would be interesting next: the names of words, and a resource.
    def wish(names, target) = @wishes.push([names, target])

    def fulfil((names, target))
      return leave(names) if names.is_a?(String)
      words = Vocabulary::WORDS.values_at(*names).select { |one| target.nil? ? one.makes : target.kinds.include?(one.on) }
      words.any? && add(pick(words), target)
    end

    # Closes of a resource that a strand waits for, its other half, a new one with the same number, a use of that.
    def wishes(word, target, made)
      wish(%i[wait_readable read], made.first) if word.makes && chance(0.5)
      return unless target
      io = target.kinds.include?(:io)
      wish(%i[pipe pair], nil) if io && CLOSES.include?(word.name) && chance(0.3)
      wish(%i[close_half], target) if word.name == :close_half && chance(0.6)
      wish(CLOSES, target) if io && word.blocks && chance(0.4)
      wish(target.holder, nil) if word.blocks && target.holder && chance(0.5)
    end

    # Often a resource that a strand waits for, or its other end.
    def target
      return if chance(0.2)
      waited = @blocked.values.compact
      return pick(waited).then { |one| (one.peer && chance(0.5)) ? one.peer : one } if waited.any? && chance(0.5)
      chance(0.6) ? @resources.last(4).then { |last| pick(last) } : pick(@resources)
    end

    def word(target)
      words = Vocabulary::WORDS.values.select do |one|
        next if one.alone && !@alone
        next target.nil? && @resources.size < MOST if one.makes
        target ? target.kinds.include?(one.on) : one.on.nil?
      end
      return if words.empty?
      weighted(words.to_h { |one| [one, (one.makes && !@topics.include?(one.makes)) ? 0.3 : one.weight] })
    end

    # @return [String, nil] a strand
    def speaker(word, target)
      case word.by
      when :reader then able(target.reader)
      when :writer then able(target.writer)
      when :another then free(STRANDS - [target.name])
      else free
      end
    end

    def able(strand) = (strand unless @blocked.key?(strand) && !chance(0.1))

    # @return [Boolean] whether a strand can do that
    def add(word, target)
      strand = word && speaker(word, target) or return false
      made = make(word.makes)
      @open[strand].last.body << node(word.name, code: fill(pick(word.codes), target, made), timed: word.timed)
      @resources.concat(made)
      target.kinds -= %i[pipe_input pipe_output] if word.name == :reopen
      @blocked.delete_if { |_, waited| waited.nil? || [target, target&.peer].include?(waited) || target.kinds.include?(:strand) } if word.frees && target
      @blocked[strand] = target || made.last if word.blocks && chance(0.8)
      wishes(word, target, made)
      true
    end

    # @return [Array<Resource>] for %{r} and %{w}
    def make(kind)
      return [] unless kind
      made = MADE.fetch(kind).zip(kind_letters(kind)).map { |kinds, letter| Resource.new("#{letter}#{@names[letter] += 1}", kinds, pick(STRANDS), pick(STRANDS)) }
      made.each { |one| one.peer = (made - [one]).first }
    end

    def kind_letters(kind) = {pipe: %w[r w], pair: %w[a b], server: %w[v], file: %w[f], process_io: %w[p], process_input: %w[p], child: %w[k g], gate: %w[e g]}.fetch(kind)

    def fill(code, target, made)
      code = code.gsub("%{it}", target.name) if target
      code = code.gsub("%{gate}", target.peer.name) if target&.peer
      code.gsub("%{r}", made.first&.name.to_s).gsub("%{w}", made.last&.name.to_s).gsub("%{large}") { pick(Vocabulary::LARGE) }.gsub("%{other}") { other(target).name }
    end

    # Another IO of the same kind, if there is one.
    def other(target)
      ios = @resources.select { |one| one.kinds.include?(:io) && one != target && one.reader == target.reader }
      ios.empty? ? target : pick(ios)
    end

    def open
      block = weighted(Vocabulary::BLOCKS.values.to_h { |one| [one, one.weight] })
      targets = @resources.select { |one| one.kinds.include?(block.on) }
      return say if block.on && targets.empty?
      strand = free
      target = block.on && pick(targets)
      made = make(block.makes)
      opened = node(block.name, open: fill(block.open, target, made), close: fill(block.close, target, made))
      @open[strand].last.body << opened
      @open[strand] << opened
      @resources.concat(made.each { |one| one.holder = strand })
      opened
    end

    def leave(strand = free)
      return if @open[strand].size == 1
      @open[strand].pop.body << node(:leave, code: ":leave")
      @blocked.clear if chance(0.5)
      true
    end
  end
end
