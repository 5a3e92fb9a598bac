# frozen_string_literal: true

module NeverBlock
  class Proxy
    # Reads the heads of the responses to one request: any number of interim ones, within a limit, and the final one.
    #
    #   reader = HeadReader.new(connection, request, upstream, max_head, on_interim)
    #   reader.poll    # => nil, or the final head, without a wait
    #   reader.wait    # => the final head
    # @api private
    class HeadReader
      # Interim responses to one request.
      MOST_INTERIM = 32
      private_constant :MOST_INTERIM

      # @return [Boolean] whether the upstream has asked for the content
      attr_reader :continue

      # @param connection [Connection]
      # @param request [Request]
      # @param upstream [Upstream]
      # @param max_head [Integer] bytes of a head
      # @param on_interim [#call, nil] gets the status and the fields of interim responses
      def initialize(connection, request, upstream, max_head, on_interim)
        @connection = connection
        @to_head = request.head?
        @upgrade = request.upgrade
        @upstream = upstream
        @max_head = max_head
        @on_interim = on_interim
        @scanned = @interim = 0
        @continue = @relayed = false
      end

      # @return [ResponseHead, nil] the final head, if all of it is there
      # @raise [ConnectionLost, InvalidResponse]
      def poll
        until @final
          came = @connection.receive_now
          return if came.nil?
          ended unless came
          parse
        end
        @final
      end

      # @return [ResponseHead] the final head
      # @raise [ConnectionLost, InvalidResponse, TimeoutError]
      def wait
        until @final || parse
          break if come_meanwhile
          # The first byte's deadline is that of the final head: neither interim responses nor single bytes put it off.
          ended unless @connection.receive(@connection.unread.empty? ? :first_byte : :head)
        end
        @final
      end

      # Waits for 100 (Continue), for a while: not all upstreams send it.
      # @param seconds [Numeric]
      # @return [ResponseHead, nil] the final head, if it came instead
      def wait_to_continue(seconds)
        limit = Clock.now + seconds
        until poll || @continue
          left = limit - Clock.now
          break if left <= 0 || !@connection.wait(IO::READABLE, :idle, most: left)
        end
        @final
      end

      private

      # @return [ResponseHead, nil]
      def parse
        until @final || @connection.unread.empty?
          found = ResponseParser.head(@connection.unread, @scanned, @to_head, @max_head, ResponseParser::MAX_FIELDS)
          case found
          when Integer
            @scanned = found
            return
          when String then invalid(found)
          end
          take(ResponseHead.new(found))
        end
        @final
      end

      def take(head)
        @connection.drop(head.bytes)
        @scanned = 0
        check_upgrade(head) if head.status == 101
        return @final = head unless head.interim?
        invalid("more than #{MOST_INTERIM} interim responses") if (@interim += 1) > MOST_INTERIM
        @continue = true if head.status == 100
        return unless @on_interim
        @relayed = true
        @on_interim.call(head.status, head.fields)
      end

      # The client may have taken an interim response slowly. What has come by then is not late.
      # @return [ResponseHead, nil]
      def come_meanwhile
        return unless @relayed
        @relayed = false
        poll
      end

      # RFC 9110, section 7.8: the request's protocol alone. Another one would be a tunnel that nothing has agreed to.
      def check_upgrade(head)
        invalid("101 to a request that asked for no other protocol") unless @upgrade
        protocols = head.values("upgrade")
        return if head.upgrade && protocols.size == 1 && protocols.first.casecmp?(@upgrade)
        invalid("101 for another protocol than #{@upgrade}")
      end

      def ended
        @connection.lost("the connection ended before the response did", @connection.received? ? :head : :first_byte)
      end

      def invalid(reason)
        raise InvalidResponse.new("upstream #{@upstream}: an invalid response: #{reason}. Its connection is closed; " \
          "see what it sends", upstream: @upstream, phase: :head)
      end
    end
  end
end
