# frozen_string_literal: true

module NeverBlock
  class Server
    # Reads a configuration that was written for Puma, without Puma.
    #
    #   FromPuma.file?("config/puma.rb")     # => true
    #   translation = FromPuma.read(configuration, "config/puma.rb")
    #   translation.notes.first              # => config/puma.rb:3: port 3000: here bind "tcp://[::]:3000"
    # @api private
    module FromPuma
      # Goes by the name: puma.rb, or any file in a folder named puma, such as config/puma/production.rb.
      # @param path [String]
      # @return [Boolean]
      def self.file?(path) = path.match?(%r{(\A|/)puma(\.rb\z|/[^/]+\z)})

      # @param configuration [Configuration] is filled
      # @param path [String]
      # @return [Translation] what is not a setting: the app, and notes for the operator
      # @raise [ConfigurationError]
      def self.read(configuration, path)
        require_relative "from_puma/reader"
        Reader.new(path).read(configuration)
      end

      # @param name [Symbol] an unknown word in a configuration of ours
      # @return [String, nil] if it is one of Puma's: what replaces it, as a sentence with a blank before it
      def self.suggestion(name)
        row = rows.find { |candidate| candidate.names.include?(name) }
        row && " That is a word of Puma's. #{row.plain.split.join(" ")}"
      end

      # @return [Hash{String=>Array<Row>}] every word of Puma's, by topic
      def self.topics
        require_relative "from_puma/reader"
        Translation::TOPICS.to_h { |topic| [topic::TITLE, topic.rows] }
      end

      # @return [Array<Row>]
      def self.rows = topics.values.flatten
    end
  end
end
