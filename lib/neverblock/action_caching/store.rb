# frozen_string_literal: true

require_relative "tags"

module NeverBlock
  module ActionCaching
    # Entries in a store of Rails, under their names. An error of the store is a miss: it is logged once per class.
    #
    #   store = Store.new(Rails.cache)
    #   store.write(name, {"body" => "…"}, 60)    # => true
    #   store.read([name])                        # => {name => {"body" => "…"}}
    # @api private
    class Store
      # @return [Tags]
      attr_reader :tags

      # @param cache [ActiveSupport::Cache::Store]
      def initialize(cache)
        @cache = cache
        @lock = Thread::Mutex.new
        @told = {}
        @tags = Tags.new(self)
      end

      # @param names [Array<String>]
      # @return [Hash{String=>Object}] those that were found
      def read(names)
        return {} if names.empty?
        found = attempt { @cache.read_multi(*names) }
        (Hash === found) ? found : {}
      end

      # @return [Boolean] whether it is a store of this one
      def of?(cache) = @cache.equal?(cache)

      # @param name [String]
      # @param text [String]
      # @param seconds [Numeric]
      # @return [Boolean] whether the store has taken it
      # @raise [StandardError] of the store
      def write!(name, text, seconds)
        (fresh { @cache.write(name, text, expires_in: seconds, compress: false) }) ? true : false
      end

      # @param name [String]
      # @param value [Hash, String]
      # @param seconds [Numeric]
      # @param options [Hash] of Rails
      # @return [Boolean] whether the store has taken it
      def write(name, value, seconds, **options)
        (attempt { @cache.write(name, value, expires_in: seconds, compress: false, **options) }) ? true : false
      end

      private

      def attempt(&)
        fresh(&)
      rescue TimeoutError # of the caller
        raise
      rescue => error
        tell(error)
        nil
      end

      # Rails keeps what a request has read, and would show it after a purge by another process.
      def fresh(&) = @cache.respond_to?(:with_local_cache) ? @cache.with_local_cache(&) : yield

      def tell(error)
        first = @lock.synchronize { @told.size < 100 && !@told.key?(error.class) && @told[error.class] = true }
        return unless first
        ActionCaching.settings.log&.call("the store of action caching fails: #{error.message} (#{error.class}). " \
          "Later errors of this class are not logged")
      rescue
        nil # a log that fails is not the request's matter
      end
    end
  end
end
