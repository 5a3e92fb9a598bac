# frozen_string_literal: true

require "digest"
require "securerandom"

module NeverBlock
  module ActionCaching
    # The version of each tag: a random text in the store. An entry has those of the time before its action ran, and is
    # a miss if one has changed. So a purge is one write, and is true also for a response that is being made.
    #
    #   tags.versions(["reports"])    # => {"reports" => "1f3a…"}
    #   tags.purge("reports")         # from now on it is another one
    # @api private
    class Tags
      SECONDS = 30 * 86_400 # a version that expires makes its entries misses
      MOST_FAILED = 1000 # tags
      private_constant :SECONDS, :MOST_FAILED

      # The store beneath has not taken a purge.
      class Unpurged < StandardError
        include Error
      end

      # @param store [Store]
      def initialize(store)
        @store = store
        @lock = Thread::Mutex.new
        @failed = {} # tags whose purge the store has not taken
        @salt = ""
      end

      # @return [String] part of the keys of this process. It changes after too many failed purges, so that the process
      #   finds none of its former entries
      attr_reader :salt

      # @param tag [String]
      # @return [String] its name in the store
      def name(tag) = "neverblock/tag/#{Digest::SHA256.hexdigest(tag)}"

      # Those that the store does not have are made. Another process may do so at the same time: what is then in the
      # store counts.
      # @param tags [Array<String>]
      # @param found [Hash{String=>Object}] what was read of the store, by name
      # @return [Hash{String=>String}, nil] by tag; nil: they are not known, so nothing can be used or stored
      def versions(tags, found)
        return {} if tags.empty?
        return unless tags.all? { |tag| trusted?(tag) }
        missing = tags.reject { |tag| String === found[name(tag)] }
        if missing.any?
          missing.each { |tag| @store.write(name(tag), SecureRandom.hex(16), SECONDS, unless_exist: true) }
          found = @store.read(tags.map { |tag| name(tag) })
        end
        versions = tags.to_h { |tag| [tag, found[name(tag)]] }
        versions if versions.values.all?(String)
      end

      # If the store does not take it, this process uses no entries with the tag until the store has taken it.
      # @param tag [String]
      # @return [true]
      # @raise [StandardError] of the store; {Unpurged} if the store says only that it has not taken it
      def purge(tag)
        taken = false
        taken = @store.write!(name(tag), SecureRandom.hex(16), SECONDS)
        taken or raise Unpurged, "the store has not taken the purge of the tag #{tag.inspect}: other processes may " \
          "use old pages until they expire. See whether the store can be reached, and purge again"
      ensure
        @lock.synchronize { taken ? @failed.delete(tag) : remember(tag) }
      end

      private

      def remember(tag)
        @failed[tag] = true
        return if @failed.size <= MOST_FAILED
        @failed.clear
        @salt = SecureRandom.hex(8)
      end

      def trusted?(tag)
        !@failed.key?(tag) || purge(tag)
      rescue TimeoutError
        raise
      rescue
        false
      end
    end
  end
end
