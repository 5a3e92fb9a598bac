# frozen_string_literal: true

require_relative "../runtime/monotonic_clock"

module NeverBlock
  class Cache
    # Spares requests a store that hangs or fails. After an operation that has taken long, there are none for some
    # seconds; then one tries, and the others only once it was quick.
    #
    #   patience = Patience.new
    #   patience.watch { store.read("key") }    # takes two seconds
    #   patience.over?                          # => true
    #   patience.renew                          # the next one is tried in any case
    #
    # It ends no operation: a store has timeouts of its own, and may not be interrupted.
    # @api private
    class Patience
      include MonotonicClock

      # @param long [Numeric] seconds of an operation, from which on the store counts as hung
      # @param pause [Numeric] seconds
      def initialize(long: 0.5, pause: 5)
        @long = long
        @pause = pause
        @lock = Thread::Mutex.new
        @until = nil
      end

      # @return [Boolean] whether the store is not to be asked now. After a pause it is so for all but the first that
      #   asks here
      def over?
        return false if @until.nil?
        @lock.synchronize do
          next false if @until.nil?
          next true if now < @until
          @until = now + @pause
          false
        end
      end

      # @return [Boolean] whether the store is not to be asked now; nothing tries
      def rests? = (till = @until) ? now < till : false

      # @param failure [#call, nil] gets an exception, and tells whether it is as bad as an operation that takes long
      # @yield asks the store
      # @return [Object] the block's value
      def watch(failure = nil)
        start = now
        yield
      rescue => error
        failed = failure&.call(error)
        raise
      ensure
        hung = failed || now - start > @long
        @lock.synchronize { @until = hung ? now + @pause : nil } if hung || @until
      end

      # @return [void]
      def renew = @until = nil
    end
  end
end
