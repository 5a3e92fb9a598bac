# frozen_string_literal: true

module NeverBlockPumaFuzz
  module Apps
    METHODS = %i[call each gets puts read rewind size close].freeze
    private_constant :METHODS

    # Prints the whole env, a line for each key, and what its input reads as.
    #
    #   "PATH_INFO" "/a"
    #   "rack.input read" "abc"
    #   "frozen" "PATH_INFO SCRIPT_NAME"
    #
    # The keys of values that are frozen, or not binary, have a line of their own.
    Echo = lambda do |env|
      lines = env.sort_by { |key, _| key.to_s }.to_h { |key, value| [key, shown(value)] }
      texts = env.select { |_, value| String === value }.sort.to_h
      lines["frozen"] = texts.select { |_, value| value.frozen? }.keys.join(" ").dump
      lines["not binary"] = texts.reject { |_, value| value.encoding == Encoding::BINARY }.keys.join(" ").dump
      lines.update(input(env["rack.input"]).to_h { |name, value| ["rack.input #{name}", shown(value)] })
      [200, {"content-type" => "text/plain"}, [lines.map { |name, value| "#{name.dump} #{value}" }.join("\n")]]
    end

    # @return [String]
    def self.shown(value)
      case value
      when String then value.b.dump
      when Array then "[#{value.map { |one| shown(one) }.join(", ")}]"
      when true, false, nil, Numeric, Symbol then value.inspect
      else METHODS.select { |name| value.respond_to?(name) }.join(" ").then { |names| "an object with #{names}" }
      end
    end

    # Reads the input in each way of the specification.
    # @return [Hash{String=>Object}]
    def self.input(input)
      all = input.read
      lines = {"read" => all, "encoding" => all.encoding.to_s, "read at the end" => input.read, "read(1) at the end" => input.read(1),
               "gets at the end" => input.gets, "rewind" => input.respond_to?(:rewind)}
      if input.respond_to?(:rewind)
        input.rewind
        lines["gets"] = input.gets
        buffer = +"before"
        lines["read(3, buffer)"] = [input.read(3, buffer), buffer]
        lines["read(0)"] = input.read(0)
        lines["each"] = [].tap { |list| input.each { |line| list << line } }
      end
      lines
    end
  end
end
