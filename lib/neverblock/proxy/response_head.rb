# frozen_string_literal: true

module NeverBlock
  class Proxy
    # The head of a response, as {ResponseParser} has read it.
    #
    #   head.status        # => 200
    #   head.values("vary")  # => ["accept", "accept-encoding"]
    # @api private
    class ResponseHead
      # @return [Integer] 100 to 999
      attr_reader :status
      # @return [Integer] 0 or 1, of HTTP/1.x
      attr_reader :minor
      # @return [String] that came with the status
      attr_reader :phrase
      # @return [Array<String>] names in lower case, each with its value, in the order of their arrival
      attr_reader :lines
      # @return [:empty, :length, :chunked, :close] how the content is delimited (RFC 9112, section 6.3)
      attr_reader :delimiter
      # @return [Integer, nil] Content-Length, also of a response without content
      attr_reader :length
      # @return [Boolean] whether another response may follow
      attr_reader :keep_alive
      # @return [Boolean] whether it has an Upgrade field that Connection lists
      attr_reader :upgrade
      # @return [Integer] bytes of the head
      attr_reader :bytes

      # @param values [Array] as {ResponseParser.head} returns them
      def initialize(values)
        @status, @minor, @phrase, @lines, @delimiter, @length, @keep_alive, @upgrade, @bytes = values
      end

      # @return [Boolean] whether another response follows to the same request
      def interim? = status < 200 && status != 101

      # @return [Array<Array(String, String)>] the same in pairs
      def fields = @fields ||= @lines.each_slice(2).to_a

      # @param name [String] in lower case
      # @return [Array<String>]
      def values(name) = fields.filter_map { |field, value| value if field == name }
    end
  end
end
