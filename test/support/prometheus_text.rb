# frozen_string_literal: true

module NeverBlockTest
  # Reads Prometheus' text format (0.0.4) as strictly as Prometheus: a family's lines stand together, below its HELP and
  # TYPE; no sample occurs twice; a counter's name ends in _total.
  #
  #   PrometheusText.new(body)["neverblock_tasks", worker: "0"]   # => 3.0: the sum of the samples with these labels
  class PrometheusText
    class Malformed < StandardError
    end

    NAME = /[a-zA-Z_:][a-zA-Z0-9_:]*/
    LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"/
    SAMPLE = /\A(#{NAME})(?:\{(#{LABEL}(?:,#{LABEL})*)\})? (-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|NaN|[+-]Inf)\n\z/

    # @return [Hash{String=>String}] the type of each family
    attr_reader :types

    # @param text [String]
    # @raise [Malformed]
    def initialize(text)
      @types = {}
      @samples = {}
      raise Malformed, "the last line has no end: #{text[-80..].inspect}" unless text.end_with?("\n")
      text.each_line { |line| read(line) }
    end

    # @param name [String]
    # @param labels [Hash{Symbol=>String}]
    # @return [Float, nil] nil if there is no such sample
    def [](name, **labels)
      found = @samples.select { |(family, has), _| family == name && labels.all? { |label, value| has[label.to_s] == value.to_s } }
      found.values.sum(0.0) unless found.empty?
    end

    private

    def read(line)
      case line
      when /\A# HELP (#{NAME}) (\S.*)\n\z/o then @helped = $1
      when /\A# TYPE (#{NAME}) (counter|gauge|untyped|histogram|summary)\n\z/o then type($1, $2, line)
      when SAMPLE then sample($1, $2.to_s, Float($~[-1]), line)
      else raise Malformed, line.inspect
      end
    end

    def type(name, type, line)
      raise Malformed, "#{line.inspect}: a second time, or without its HELP" if @types.key?(name) || @helped != name
      raise Malformed, "#{line.inspect}: a counter's name ends in _total" if type == "counter" && !name.end_with?("_total")
      @types[@family = name] = type
    end

    def sample(name, labels, value, line)
      raise Malformed, "#{line.inspect}: not below its TYPE" unless name == @family
      key = [name, labels.scan(LABEL).to_h]
      raise Malformed, "#{line.inspect}: a second time" if @samples.key?(key)
      @samples[key] = value
    end
  end
end
