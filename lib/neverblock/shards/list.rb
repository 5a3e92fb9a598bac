# frozen_string_literal: true

module NeverBlock
  module Shards
    # The databases of a Hash or a list, as shards: any objects.
    #
    #   list = List.new("map", {eu: eu, us: us})
    #   list.names                                        # => [:eu, :us]
    #   list.call(:eu) { |database, name| database.exec("select 1") }
    #
    # @api private
    class List
      # @return [Array] the names; for a list the databases themselves
      attr_reader :names

      # @param method [String] the called method, for messages
      # @param databases [Hash, #each]
      # @raise [ConfigurationError]
      def initialize(method, databases)
        unless databases.respond_to?(:each)
          raise ConfigurationError, "Shards.#{method}: databases must be a class of Active Record, a Hash or a list, " \
            "not a #{databases.class}"
        end
        @databases = databases if Hash === databases
        @names = @databases ? @databases.keys : databases.each.to_a
        twice = @names.tally.find { |_, count| count > 1 }&.first
        raise ConfigurationError, "Shards.#{method}: #{label(twice)} is in the list twice" if twice
      end

      # @return [Object] the name as it is in {#names}
      def name(given) = given

      # @return [String] for messages; it calls no `inspect` of a database, which may contain a password
      def label(name)
        case name
        when Symbol, String, Integer then name.inspect
        else @names.include?(name) ? "number #{@names.index(name) + 1} (#{name.class})" : "that #{name.class}"
        end
      end

      # @return [String]
      def to_s = "the given databases"

      # @return [void]
      def check(_name) = nil

      # @param name [Object] one of {#names}
      # @return [Object] the block's value
      def call(name) = @databases ? yield(@databases.fetch(name), name) : yield(name)
    end
  end
end
