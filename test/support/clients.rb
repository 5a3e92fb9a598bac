# frozen_string_literal: true

module NeverBlockTest
  # Common HTTP clients behind one small interface. Each keeps its connection as long as the server does.
  #
  #   client = Clients::Excon.new(port)
  #   client.call("POST", "/echo", body: "tea").body
  #   client.close
  #
  # CANNOT lists what a class's client does not support.
  module Clients
    # @!attribute status [Integer]
    # @!attribute headers [Hash{String=>Array<String>}] by names in lower case
    # @!attribute body [String, nil] decoded
    Answer = Struct.new(:status, :headers, :body) do
      # @return [String, nil] a header's only value
      def [](name) = headers[name]&.join(", ")
    end

    # Loads a gem without its own warnings.
    # @return [String, nil] why it can't be used
    def self.missing_gem(name)
      verbose, $VERBOSE = $VERBOSE, nil
      return "#{name} is not among the gems here" unless Gem.loaded_specs.key?(name)
      require name
      nil
    ensure
      $VERBOSE = verbose
    end

    def self.answer(status, fields, body)
      headers = Hash.new { |hash, name| hash[name] = [] }
      fields.each { |name, value| headers[name.downcase].concat(Array(value)) }
      Answer.new(status.to_i, headers.tap { |hash| hash.default_proc = nil }, body)
    end
  end
end
