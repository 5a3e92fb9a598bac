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
      # By its name: puma.rb, or any file in a folder puma, as config/puma/production.rb.
      # @param path [String]
      # @return [Boolean]
      def self.file?(path) = path.match?(%r{(\A|/)puma(\.rb\z|/[^/]+\z)})

      # @param configuration [Configuration] is filled
      # @param path [String]
      # @return [Translation] what is no setting: the app, and what there is to be said
      # @raise [ConfigurationError]
      def self.read(configuration, path)
        require_relative "from_puma/reader"
        Reader.new(path).read(configuration)
      end

      # @param name [Symbol] a word in a configuration of ours
      # @return [String, nil] what becomes of it, as a sentence with a blank before it, if it is Puma's
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
