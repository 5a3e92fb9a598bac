# frozen_string_literal: true

require_relative "../runtime/http_fields"

module NeverBlock
  class Proxy
    # Checks what becomes part of a request's head: nothing in it may end a line, or be read in two ways.
    #
    #   FieldCheck.add(head, "accept", "text/html")      # head ends with "accept: text/html\r\n"
    #   FieldCheck.add(head, "accept", "a\r\nx: y")      # raises InvalidRequest
    #   FieldCheck.add(head, "connection", "close")      # raises InvalidRequest: it is not for the upstream
    # @api private
    module FieldCheck
      # RFC 9110, section 5.6.2; the lengths are those of the server's parser.
      NAME = /\A[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,256}\z/n
      METHOD = /\A[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32}\z/n
      # The origin form of RFC 9112, section 3.2.1: visible ASCII; a fragment is never sent.
      TARGET = %r{\A/[\x21\x22\x24-\x7e]*\z}n
      # RFC 9112, section 3.2: as narrow as the server's.
      AUTHORITY = /\A(?:\[\h*:[\h:.]+\]|(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%\h\h)+)(?::\d{0,5})?\z/n

      # RFC 9110, section 7.6.1, and what older proxies take for one of these. Their meaning ends here; those that the
      # client needs it writes itself, as it does with the length and Host.
      OWN = [*HttpFields::HOP_BY_HOP, "content-length", "expect", "host"].to_h { |name| [name, true] }.freeze

      # RFC 9110, section 7.8: a protocol and perhaps its version.
      PROTOCOL = %r{\A[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}(?:/[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,16})?\z}n
      # Names that are known to be good: requests have few different ones.
      MOST_NAMES = 1_000
      private_constant :NAME, :METHOD, :TARGET, :AUTHORITY, :OWN, :PROTOCOL, :MOST_NAMES

      @prefixes = {}

      class << self
        # @param lines [String] gets the field's line
        # @return [void]
        # @raise [InvalidRequest]
        def add(lines, name, value)
          FieldLines.add(lines, @prefixes[name] || prefix(name), value) || refuse(name, value)
        end

        # @param name [String] of a field
        # @return [String] the beginning of its line
        # @raise [InvalidRequest]
        def prefix(name)
          name = binary(name, "a field's name")
          invalid("the name of a field", name, "It must be a token of at most 256 bytes") unless NAME.match?(name)
          if OWN[name.downcase]
            invalid("the field", name, "It is between two neighbours, or the client's own. Leave it out; see the " \
              "options of Request")
          end
          prefix = "#{name}: ".b.freeze
          @prefixes[name.dup.freeze] = prefix if @prefixes.size < MOST_NAMES
          prefix
        end

        # @param name [String] of a field
        # @param value [Object] that can't be sent (RFC 9110, section 5.5: no control character but the tab)
        # @raise [InvalidRequest]
        def refuse(name, value)
          invalid("the value of the field #{name}", binary(value, name, "the value of the field "),
            "It must not have a control character, nor a line's end")
        end

        # @return [String]
        # @raise [InvalidRequest]
        def method(text)
          text = binary(text, "the method")
          return text if METHOD.match?(text) && text != "CONNECT"
          invalid("the method", text, "It must be a token of at most 32 bytes, and CONNECT is never sent")
        end

        # @return [String]
        # @raise [InvalidRequest]
        def target(method, text)
          text = binary(text, "the request target")
          return text if TARGET.match?(text) || (text == "*" && method == "OPTIONS")
          invalid("the request target", text, "It must begin with / and be of visible ASCII, without #")
        end

        # @return [String]
        # @raise [InvalidRequest]
        def authority(text)
          text = binary(text, "Host")
          AUTHORITY.match?(text) ? text : invalid("Host", text, "It must be a host and perhaps a port")
        end

        # @return [String]
        # @raise [InvalidRequest]
        def protocol(text)
          text = binary(text, "upgrade:")
          return text if PROTOCOL.match?(text)
          invalid("upgrade:", text, "It must be one protocol, such as websocket")
        end

        private

        def binary(text, what, of = nil)
          return (text.ascii_only? && text.encoding.ascii_compatible?) ? text : text.b if String === text
          raise InvalidRequest, "#{of}#{what} is #{text.inspect}. It must be a String"
        end

        def invalid(what, text, remedy)
          shown = text.byteslice(0, 80).inspect
          raise InvalidRequest, "#{what} can't be sent: #{shown}#{"..." if text.bytesize > 80}. #{remedy}"
        end
      end
    end
  end
end
