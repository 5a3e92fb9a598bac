# frozen_string_literal: true

module NeverBlockPumaFuzz
  # Reads all answers out of the bytes that a server has sent on a connection.
  #
  #   Answers.read(bytes)      # => [#<struct Answer status=200, …>]
  #
  # The apps add a field x-request to each response, so that an answer to HEAD is recognised. A server's own answers
  # have none.
  class Answers
    # @!attribute framing
    # @return [:none, :length, :chunked, :close] how the end of the body is determined
    # @!attribute fields
    # @return [Array<Array(String, String)>] names in lower case, sorted by name
    # @!attribute complete
    # @return [Boolean] whether the body has its end
    Answer = Struct.new(:status, :fields, :body, :framing, :complete) do
      def [](name) = fields.assoc(name)&.last

      def interim? = status.between?(100, 199) && status != 101

      # Whether the app has made it, and not the server.
      def apps? = !request.nil?

      # @return [String, nil] the first line of the request, as the app was told
      def request = self["x-request"]
    end

    HEAD = %r{\AHTTP/1\.[01] (\d+)[^\r\n]*\r\n((?:[^\r\n]*\r\n)*?)\r\n}n
    private_constant :HEAD

    # @param bytes [String]
    # @return [Array<Answer, String>] interim ones among them; a String: bytes that are not an answer
    def self.read(bytes) = new(bytes).to_a

    def initialize(bytes)
      @rest = bytes
    end

    # @return [Array<Answer, String>]
    def to_a
      answers = []
      answers << following until @rest.empty?
      answers
    end

    private

    def following
      match = HEAD.match(@rest)
      return take(@rest.bytesize) unless match
      @rest = match.post_match
      fields = match[2].split("\r\n").map { |line| line.split(/: ?/n, 2) }.map { |name, value| [name.downcase, value.to_s] }
      answer = Answer.new(match[1].to_i, fields.sort_by.with_index { |(name, _), place| [name, place] }, "".b, :none, true)
      read_body(answer) unless answer.interim? || answer.request&.start_with?("HEAD ") || [204, 304].include?(answer.status)
      answer
    end

    def take(count) = @rest.byteslice(0, count).tap { @rest = @rest.byteslice(count..) || "".b }

    def read_body(answer)
      if answer["transfer-encoding"]
        answer.framing = :chunked
        read_chunks(answer)
      elsif (length = answer["content-length"]) && answer.status != 101
        answer.framing = :length
        answer.body = take((!answer.apps? && @rest.start_with?("HTTP/1.")) ? 0 : length.to_i) # a server's own, to HEAD
        answer.complete = answer.body.bytesize == length.to_i
      else
        answer.framing = :close
        answer.body = take(@rest.bytesize)
      end
    end

    def read_chunks(answer)
      loop do
        size = @rest[/\A(\h+)\r\n/n, 1]
        return answer.complete = false unless size
        take(size.bytesize + 2)
        data = take(size.hex)
        answer.body << data
        return answer.complete = false unless data.bytesize == size.hex && take(2) == "\r\n"
        return if size.hex.zero?
      end
    end
  end
end
