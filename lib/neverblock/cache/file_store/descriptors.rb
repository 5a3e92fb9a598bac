# frozen_string_literal: true

require_relative "../../runtime/monotonic_clock"

module NeverBlock
  class Cache
    class FileStore
      # The open files of {Body}s: no more than the limit stay open, besides those that are being read.
      #
      #   descriptors.hold(body)                     # open for now: 10 s at least, unless there are too many
      #   descriptors.reading(body) { |file| … }     # stays open meanwhile
      #
      # A removed file takes room on the disk until it is closed, so those that are not used are closed soon.
      # @api private
      class Descriptors
        include MonotonicClock

        IDLE = 10 # seconds
        private_constant :IDLE

        # @param limit [Integer]
        def initialize(limit)
          @limit = limit
          @lock = Thread::Mutex.new
          @open = {}.compare_by_identity # the least recently used first
          @looked_at = now
        end

        # @param body [Body]
        # @return [void]
        # @raise [Body::Lost]
        def hold(body)
          file = body.reopen unless body.open?
          change do |closing|
            closing << file if file && !body.adopt(file).equal?(file)
            use(body)
            drop(closing)
          end
        end

        # @param body [Body]
        # @yieldparam file [File]
        # @return [Object] the block's value
        # @raise [Body::Lost]
        def reading(body)
          until (file = @lock.synchronize { body.enter })
            hold(body)
          end
          begin
            yield file
          ensure
            change do |closing|
              body.leave
              release(body, closing) unless @open.key?(body)
            end
          end
        end

        # Closes what has not been used lately.
        # @return [void]
        def tidy
          time = now
          return if time - @looked_at < 1
          @looked_at = time
          change { |closing| expire(closing, time) }
        end

        # @return [Integer]
        def size = @open.size

        # @return [void]
        def close = change { |closing| @open.keys.each { |body| leave(body, closing) } }

        private

        # Files are closed without the lock.
        def change
          closing = []
          @lock.synchronize { yield closing }
        ensure
          closing.each(&:close)
        end

        def use(body)
          body.used_at = now
          @open.delete(body)
          @open[body] = true
        end

        def drop(closing)
          leave(@open.first.first, closing) while @open.size > @limit
        end

        def expire(closing, time)
          @open.keys.each { |body| leave(body, closing) if time - body.used_at > IDLE && !body.busy? }
        end

        # One that is being read is closed afterwards.
        def leave(body, closing)
          @open.delete(body)
          release(body, closing)
        end

        def release(body, closing)
          file = body.release
          closing << file if file
        end
      end
    end
  end
end
