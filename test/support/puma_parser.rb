# frozen_string_literal: true

require "socket"
require "stringio"

module NeverBlockTest
  # Puma's reading of a request, to compare ours with: its parser in C and its client's checks.
  #
  #   PumaParser.parse("GET / HTTP/1.1\r\nHost: a\r\n\r\n")   # => {"REQUEST_METHOD" => "GET", …}
  #   PumaParser.parse("GET /\r\n\r\n")                       # => [400, "Invalid HTTP format, …"]
  #   PumaParser.parse("GET / HTTP/1.1\r\n")                  # => :more
  #
  # "chunked" in the env is ours: Puma removes the field.
  module PumaParser
    def self.missing
      return "puma is not among the gems here" unless Gem.loaded_specs.key?("puma")
      verbose, $VERBOSE = $VERBOSE, nil
      require "puma"
      require "puma/server"
      nil
    ensure
      $VERBOSE = verbose
    end

    # A socket that returns the given bytes, and then waits for more.
    class Wire < StringIO
      def to_io = self

      def peeraddr = ["AF_INET", 1, "127.0.0.1", "127.0.0.1"]

      def read_nonblock(size, ...) = read(size) || raise(IO::EAGAINWaitReadable)
    end

    # @return [Hash, Array(Integer, String), Symbol]
    def self.parse(bytes)
      wire = Wire.new("".b << bytes) # Puma's parser writes into its input, even if that is shared
      client = Puma::Client.new(wire, {"SCRIPT_NAME" => "", "QUERY_STRING" => "", "REMOTE_ADDR" => "127.0.0.1"})
      client.supported_http_methods = Puma::Const::IANA_HTTP_METHODS.to_h { |name| [name, true] }
      client.try_to_finish
      return :more unless client.in_data_phase
      client.env.merge("chunked" => client.instance_variable_get(:@chunked_body) == true)
    rescue Puma::HttpParserError501 => error
      [501, error.message]
    rescue Puma::HttpParserError => error
      [400, error.message]
    ensure
      client&.close
    end
  end
end
