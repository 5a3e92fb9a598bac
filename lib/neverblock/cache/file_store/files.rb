# frozen_string_literal: true

require_relative "body"
require_relative "recent"

module NeverBlock
  class Cache
    class FileStore
      # Reads and removes the files of entries.
      #
      #   files.names(*layout.shelf(key))     # => names of a key's files
      #   files.read(key, folder, name)       # => Recent::Record; nil: it is gone, or was damaged
      #   files.remove(path)                  # => bytes that are free now; nil: it was gone
      # @api private
      class Files
        # Files up to this size are read at once.
        AT_ONCE = 2 * EntryFormat::BLOCK
        CLUSTER = 4_096
        READ = File::RDONLY | File::NOFOLLOW | File::NONBLOCK
        private_constant :AT_ONCE, :CLUSTER, :READ

        # @param bytes [Integer] of a file
        # @return [Integer] bytes that it takes on a disk
        def self.room(bytes) = (bytes + CLUSTER - 1) / CLUSTER * CLUSTER

        # @param descriptors [Descriptors]
        # @yieldparam error [Exception] why a file was removed
        def initialize(descriptors, &damaged)
          @descriptors = descriptors
          @damaged = lambda do |path, error|
            discard(path)
            damaged.call(error)
          end
        end

        # @param folder [String]
        # @param start [String] how the names begin
        # @return [Array<String>]
        def names(folder, start)
          Dir.children(folder).select { |name| name.start_with?(start) && Layout::NAME.match?(name) }
        rescue Errno::ENOENT
          []
        end

        # @param key [String]
        # @param path [String]
        # @return [Array(Entry, File::Stat), nil] nil: the file is gone, or was not what it should be and is removed
        # @raise [SystemCallError]
        def read(key, path)
          file = File.open(path, READ, binmode: true)
          status = file.stat
          raise EntryFormat::Malformed, "#{path} is not a file of this user" unless status.file? && status.owned?
          parsed = EntryFormat.parse(source = source(file, status.size), status.size)
          raise EntryFormat::Malformed, "#{path} is of another key" unless parsed.key == key
          body = body(path, file, source, parsed)
          file = nil unless Array === body
          [parsed.entry(body), status]
        rescue Errno::ENOENT
          nil
        rescue EntryFormat::Malformed, Errno::ELOOP, Errno::ENXIO, Errno::EISDIR => error
          @damaged.call(path, error)
          nil
        ensure
          file&.close
        end

        # @param path [String]
        # @return [Integer, nil]
        # @raise [SystemCallError]
        def remove(path)
          size = File.lstat(path).size
          File.unlink(path)
          Files.room(size)
        rescue Errno::ENOENT
          nil
        end

        private

        def source(file, size) = (size <= AT_ONCE) ? EntryFormat::Text.new(file.pread(size, 0)) : file

        def body(path, file, source, parsed)
          return Body.new(path, file, parsed, @descriptors, @damaged) if parsed.body_size > EntryFormat::BLOCK
          Array.new(EntryFormat.blocks(parsed.body_size)) { |index| EntryFormat.block(source, parsed, index) }.freeze
        end

        # What is in an entry's place can't be trusted, and would be found at each read.
        def discard(path)
          File.lstat(path).directory? ? Dir.rmdir(path) : File.unlink(path)
        rescue SystemCallError
          nil # it is damaged again at the next read
        end
      end
    end
  end
end
