# frozen_string_literal: true

require "digest"
require "securerandom"

module NeverBlock
  class Cache
    class FileStore
      # The numbers in a {State}'s file, while its lock is held.
      # @api private
      class LockedState
        MAGIC = "NBState\x01".b.freeze
        # Magic, identity; then the numbers below.
        START = "a8a16Q>*"
        NUMBERS = %i[last all any_tag bytes entries keys links swept_at].freeze
        # What is stored; `links` are the files in folders of tags that were made since the last sweep, `all` is the
        # number of the last purge of all.
        COUNTS = %i[bytes entries keys links swept_at all].freeze
        START_SIZE = 128
        BUCKETS = 4_096
        KEYS = START_SIZE
        TAGS = KEYS + 8 * BUCKETS
        SIZE = TAGS + 8 * BUCKETS
        private_constant :MAGIC, :START, :NUMBERS, :COUNTS, :START_SIZE, :BUCKETS, :KEYS, :TAGS, :SIZE

        # @param file [File]
        # @param path [String] where it should be
        def initialize(file, path)
          @file = file
          @path = path
          load
        end

        # @return [Boolean] whether the file is complete
        def valid? = !@identity.nil?

        # @return [Boolean] whether the file is still where other processes look for it
        def current?
          now, own = File.stat(@path), @file.stat
          now.ino == own.ino && now.dev == own.dev
        rescue Errno::ENOENT
          false
        end

        # Forgets all, under a new identity. Each byte is written, so that later changes need no room on the disk.
        # @return [void]
        def begin_anew
          @identity = SecureRandom.bytes(16)
          @numbers = NUMBERS.to_h { |name| [name, 0] }
          @file.truncate(0)
          @file.pwrite("\0".b * SIZE, 0)
          save
        end

        # @param key [String]
        # @return [Array(String, Integer)]
        def generation(key) = [@identity, [number_at(KEYS, key), @numbers[:any_tag], @numbers[:all]].max].freeze

        # @param generation [Object] as of {#generation}; one of another store counts as too old
        # @param key [String]
        # @param tags [Array<String>]
        # @return [Boolean] whether a purge has come since
        def since?(generation, key, tags)
          identity, number = generation
          return true unless identity == @identity && Integer === number
          @numbers[:all] > number || number_at(KEYS, key) > number || tags.any? { |tag| number_at(TAGS, tag) > number }
        end

        # In these three the number is taken first: a purge that is interrupted has not begun, or refuses too much.

        # @param key [String] purged now
        # @return [void]
        def purge(key)
          @numbers[:last] += 1
          save
          @file.pwrite([@numbers[:last]].pack("Q>"), place(KEYS, key))
        end

        # @param tag [String] purged now
        # @return [void]
        def purge_tag(tag)
          @numbers[:any_tag] = @numbers[:last] += 1
          save
          @file.pwrite([@numbers[:last]].pack("Q>"), place(TAGS, tag))
        end

        # All is purged now.
        # @return [void]
        def purge_all
          @numbers[:all] = @numbers[:last] += 1
          save
        end

        # @return [Hash{Symbol=>Integer}] what is stored
        def counts = @numbers.slice(*COUNTS)

        # @param changes [Hash{Symbol=>Integer}] to be added
        # @return [void]
        def add(changes) = set(changes.to_h { |name, change| [name, @numbers.fetch(name) + change] })

        # @param counts [Hash{Symbol=>Integer}]
        # @return [void]
        def set(counts)
          @numbers.merge!(counts.transform_values { |count| [count, 0].max })
          save
        end

        private

        def load
          text = read(0, START_SIZE)
          return unless text.bytesize == START_SIZE && text.start_with?(MAGIC) && @file.size == SIZE
          _, identity, *numbers = text.unpack(START)
          @identity = identity.freeze
          @numbers = NUMBERS.zip(numbers).to_h
        end

        def save = @file.pwrite([MAGIC, @identity, *@numbers.values_at(*NUMBERS)].pack(START), 0)

        def number_at(table, text)
          read(place(table, text), 8).unpack1("Q>") or raise EOFError, "#{@path} ends too early"
        end

        def read(from, length)
          @file.pread(length, from)
        rescue EOFError
          ""
        end

        # The same in each process, unlike String#hash.
        def place(table, text) = table + 8 * (Digest::SHA256.digest(text).unpack1("N") % BUCKETS)
      end
    end
  end
end
