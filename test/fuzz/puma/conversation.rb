# frozen_string_literal: true

module NeverBlockPumaFuzz
  # What a client sends on one connection: texts, and what it does between them.
  #
  #   Conversation.new(7, ["GET / HTTP/1.1\r\n", "Host: a\r\n", "\r\n", :half_close])
  #
  # - a String is sent
  # - :pause waits until both servers have nothing more to say
  # - :half_close ends the client's direction
  Conversation = Struct.new(:seed, :parts) do
    # @return [String] all texts
    def bytes = parts.grep(String).join

    # @param numbers [Array<Integer>] of parts
    # @return [Conversation] without them
    def without(numbers) = Conversation.new(seed, parts.reject.with_index { |_, number| numbers.include?(number) })

    # Texts between pauses become one.
    # @return [Array<String, Symbol>]
    def steps = parts.chunk_while { |before, after| String === before && String === after }.map { |some| (String === some.first) ? some.join : some.first }.flatten

    # @return [Boolean]
    def half_closes? = parts.include?(:half_close)

    # @return [String] one part a line, with its number
    def to_s = parts.map.with_index { |part, number| "#{number.to_s.rjust(3)}  #{shown(part)}" }.join("\n")

    private

    def shown(part)
      return part.inspect if Symbol === part
      (part.bytesize > 200) ? "#{part.byteslice(0, 160).dump}… #{part.bytesize} bytes" : part.dump
    end
  end
end
