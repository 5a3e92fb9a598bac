# frozen_string_literal: true

module NeverBlock
  class Cache
    class Fill
      # Interim responses (1xx), such as 103 (Early Hints), on their way from a fetch to the client that began it
      # (RFC 9110, section 15.2). The fetch leaves them here, and never waits for that client; the client's own fiber
      # sends them, until the fill is decided:
      #
      #   interim = Interim.for(env)           # => nil: the client's server has no way for them
      #   fetch_env.merge!(interim.entries)    # the app calls fetch_env["rack.early_hints"]
      #   interim.deliver                      # in the client's fiber: calls env["rack.early_hints"]
      #   interim.close                        # by the decision
      # @api private
      class Interim
        # Rack's, for the headers of a 103, and our server's, for status and headers. The server's take both.
        EARLY_HINTS = "rack.early_hints"
        ENTRIES = [EARLY_HINTS, "neverblock.interim"].freeze
        # So many wait at most for a client that takes them slowly; others are dropped, since they are only hints.
        MOST = 16
        private_constant :EARLY_HINTS, :ENTRIES, :MOST

        # @param env [Hash] the client's
        # @return [Interim, nil]
        def self.for(env)
          names = ENTRIES.select { |name| env[name] }
          new(env, names) unless names.empty?
        end

        # @param env [Hash] the client's
        # @param names [Array<String>] of the entries that the client has
        def initialize(env, names)
          @env = env
          @names = names
          @queue = Thread::Queue.new
        end

        # @return [Hash{String=>Proc}] what the fetch has in the place of the client's
        def entries = @names.to_h { |name| [name, ->(status = 103, headers) { keep(name, status, copy(headers)) }] }

        # Sends what comes, until {#close}. A client that has left is noticed when its response is sent. One that an app
        # serves on a thread of its own gets none: our server has a way for them on the server's thread alone.
        # @return [void]
        def deliver
          while (one = @queue.pop)
            call(*one)
          end
        rescue IOError, SystemCallError, ThreadError
          nil
        ensure
          close
        end

        # What comes from now on is dropped.
        # @return [void]
        def close = @queue.close

        private

        def keep(name, status, headers)
          @queue << [name, status, headers] if @queue.size < MOST
          nil
        rescue ClosedQueueError
          nil
        end

        # The app may change its headers afterwards.
        def copy(headers)
          headers&.to_h { |name, value| [text(name), (Array === value) ? value.map { |one| text(one) } : text(value)] }
        end

        def text(value) = value && value.to_s.dup # of nil the server makes no field

        # The app can't be told any more that the server refuses one, and the others that wait have no part in that.
        def call(name, status, headers)
          return @env[name].call(headers) if name == EARLY_HINTS && status == 103
          @env[name].call(status, headers)
        rescue ProtocolError => error
          @env["rack.errors"]&.write("NeverBlock::Cache: an interim response is not sent: #{error.message}\n")
        end
      end
    end
  end
end
