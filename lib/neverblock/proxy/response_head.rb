# frozen_string_literal: true

module NeverBlock
  class Proxy
    # The head of a response, as {ResponseParser} has read it.
    #
    #   head.status        # => 200
    #   head.values("vary")  # => ["accept", "accept-encoding"]
    #
    # @!attribute [r] status
    #   @return [Integer] 100 to 999
    # @!attribute [r] minor
    #   @return [Integer] 0 or 1, of HTTP/1.x
    # @!attribute [r] phrase
    #   @return [String] that came with the status
    # @!attribute [r] fields
    #   @return [Array<Array(String, String)>] names in lower case and values, in the order of their arrival
    # @!attribute [r] delimiter
    #   @return [:empty, :length, :chunked, :close] how the content is delimited (RFC 9112, section 6.3)
    # @!attribute [r] length
    #   @return [Integer, nil] Content-Length, also of a response without content
    # @!attribute [r] keep_alive
    #   @return [Boolean] whether another response may follow
    # @!attribute [r] upgrade
    #   @return [Boolean] whether it has an Upgrade field that Connection lists
    # @!attribute [r] bytes
    #   @return [Integer] of the head
    # @api private
    ResponseHead = Struct.new(:status, :minor, :phrase, :fields, :delimiter, :length, :keep_alive, :upgrade, :bytes) do
      # @return [Boolean] whether another response follows to the same request
      def interim? = status < 200 && status != 101

      # @param name [String] in lower case
      # @return [Array<String>]
      def values(name) = fields.filter_map { |field, value| value if field == name }
    end
  end
end
