# frozen_string_literal: true

require_relative "../runtime/monotonic_clock"

module NeverBlock
  class Cache
    # What stores do about errors of what is beneath them: they are counted, and told once per kind. The caller gets a
    # value as if there were no entry.
    #
    # If a purge fails, this process reads nothing any more until it has emptied the store: an entry might be one that
    # was purged.
    #
    # The class has a constant TROUBLE, an Array of exception classes, and a method `clear`.
    # @api private
    module Guarded
      include MonotonicClock

      RETRY = 5 # seconds after a failed purge
      private_constant :RETRY

      private

      # @param log [#call, nil]
      # @param name [String] of the store, in messages
      def guard(log, name)
        @log = log
        @guarded = name
        @counting = Thread::Mutex.new
        @told = {}
        @refused = @errors = 0
        @distrusted_at = nil
      end

      # @return [Boolean] whether a purge has failed
      def distrusted? = !@distrusted_at.nil?

      # @return [Boolean] false: a purge has failed, and what is stored could not be removed yet
      def trusted?
        return true unless @distrusted_at
        return false if now - @distrusted_at < RETRY
        clear
        @distrusted_at.nil?
      end

      def trust = @distrusted_at = nil

      # @yieldreturn [Object]
      # @return [Object] the block's value, or the other one
      def attempt(otherwise)
        yield
      rescue *self.class::TROUBLE => error
        trouble(error)
        otherwise
      end

      # A purge that is interrupted has failed.
      # @yieldreturn [Integer]
      # @return [Integer]
      def purging
        done = nil
        done = yield
      rescue *self.class::TROUBLE => error
        trouble(error)
        0
      ensure
        @distrusted_at = now unless done
      end

      # @return [false]
      def refuse
        @counting.synchronize { @refused += 1 }
        false
      end

      def trouble(error)
        first = @counting.synchronize do
          @errors += 1
          @told[error.class].nil? && @told[error.class] = true
        end
        return unless first && @log
        @log.call("#{@guarded}: #{error.message} (#{error.class}). Later ones are only counted")
      rescue
        nil # a log that fails is not the cache's matter
      end
    end
  end
end
