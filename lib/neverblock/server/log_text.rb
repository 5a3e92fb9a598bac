# frozen_string_literal: true

module NeverBlock
  class Server
    # Makes text from the network or from an exception safe for a line of a log.
    #
    #   LogText.line("a\nforged line")    # => "a\\nforged line"
    #   LogText.quoted("say \"hi\"")      # => "say \\\"hi\\\""
    # @api private
    module LogText
      # Control characters, characters that some viewers show as the end of a line, and those that change the text's
      # direction.
      UNSAFE = /[\p{Cc}\u2028\u2029\u202A-\u202E\u2066-\u2069]/
      UNSAFE_QUOTED = Regexp.union(UNSAFE, /["\\]/)
      NAMES = {"\n" => "\\n", "\r" => "\\r", "\t" => "\\t", '"' => '\\"', "\\" => "\\\\"}.freeze

      # @param text [Object] of any encoding
      # @param limit [Integer] number of characters that are kept
      # @return [String] UTF-8 on one line
      def self.line(text, limit: 4_000) = escape(text, UNSAFE, limit)

      # The same for the inside of quotes.
      # @return [String]
      def self.quoted(text, limit: 4_000) = escape(text, UNSAFE_QUOTED, limit)

      # @param env [Hash] a Rack env
      # @param limit [Integer]
      # @return [String] the target of the request, for the inside of quotes
      def self.target(env, limit: 4_000)
        path = "#{labelled(env["SCRIPT_NAME"])}#{labelled(env["PATH_INFO"])}"
        query = labelled(env["QUERY_STRING"])
        quoted(query.empty? ? path : "#{path}?#{query}", limit:)
      end

      # @param env [Hash]
      # @return [String] the first line of the request, for the inside of quotes
      def self.request(env, limit: 4_000)
        "#{quoted(env["REQUEST_METHOD"])} #{target(env, limit:)} #{quoted(env["SERVER_PROTOCOL"])}"
      end

      # @return [String] valid UTF-8: invalid bytes are written as \xFF
      def self.utf8(text) = labelled(text).scrub { |bytes| hex(bytes) }

      # @param error [Exception]
      # @return [String] its class, message and place, on one line
      def self.error(error)
        place = Array(ask(error, :backtrace)).first
        line("#{error.class}: #{utf8(ask(error, :message))}#{" (#{place})" if place}")
      end

      # @param error [Exception]
      # @return [String] as Ruby prints it, on several lines
      def self.full(error)
        error.full_message(highlight: false, order: :top)
      rescue SystemStackError, StandardError
        error(error)
      end

      # An exception of the app may have methods of its own, which may fail.
      # @param error [Exception]
      # @param method [Symbol] of the exception
      # @return [Object] the method's value, or a text that it failed
      def self.ask(error, method)
        error.public_send(method)
      rescue SystemStackError, StandardError => second
        "(its #{method} raised #{second.class})"
      end

      def self.escape(text, unsafe, limit)
        text = labelled(text)
        text = "#{text[0, limit]} …" if text.size > limit
        unless text.valid_encoding?
          return text.each_char.map { |one| one.valid_encoding? ? escape(one, unsafe, limit) : hex(one) }.join
        end
        return text unless unsafe.match?(text)
        text.gsub(unsafe) do |character|
          NAMES[character] || format((character.ord < 256) ? "\\x%02X" : "\\u%04X", character.ord)
        end
      end
      private_class_method :escape

      def self.labelled(text)
        text = text.to_s
        (text.encoding == Encoding::UTF_8) ? text : text.dup.force_encoding(Encoding::UTF_8)
      end
      private_class_method :labelled

      def self.hex(bytes) = bytes.unpack("C*").map { |byte| format("\\x%02X", byte) }.join
      private_class_method :hex
    end
  end
end
