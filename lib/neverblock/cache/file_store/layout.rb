# frozen_string_literal: true

require "digest"
require "securerandom"

module NeverBlock
  class Cache
    class FileStore
      # Where things are in a store's folder, and whether the folder is safe.
      #
      #   layout = Layout.new("/var/cache/app", "release-7")
      #   layout.prepare                       # raises ConfigurationError
      #   layout.shelf(key)                    # => ["/var/cache/app/release-7/e/1f/8a", "03…"]: folder, start of names
      #   layout.variant("03…", entry)          # => "03…-9d…": start of the names of its variant
      #
      # In `e` there is a file for each entry, in `t` a folder for each tag with an empty file for each entry. Names are
      # hashes (SHA-256), so that a key can neither be a path nor be too long.
      # @api private
      class Layout
        NAMESPACE = /\A[A-Za-z0-9][A-Za-z0-9._-]{0,99}\z/
        # The rest of the key's hash, the hash of what selects the entry, and a number that no other file has had.
        NAME = /\A\h{60}-\h{16}-\h{16}\.nbc\z/
        TEMPORARY = /\A\.\h{16}\.tmp\z/
        PAIR = /\A\h\h\z/
        FILE = 0o600
        FOLDER = 0o700
        OTHERS_WRITE = 0o022
        ATTEMPTS = 3 # others may remove a folder just after it was made
        private_constant :NAMESPACE, :ATTEMPTS, :FOLDER, :OTHERS_WRITE

        # @return [String] the namespace's folder
        attr_reader :root

        # @param folder [String]
        # @param namespace [String]
        # @raise [ConfigurationError]
        def initialize(folder, namespace)
          unless String === folder && !folder.strip.empty? && !folder.include?("\0")
            raise ConfigurationError, "the cache's folder #{folder.inspect} is not a path"
          end
          unless String === namespace && NAMESPACE.match?(namespace)
            raise ConfigurationError, "namespace: #{namespace.inspect} is not a name of at most 100 letters, digits, " \
              "\".\", \"_\" and \"-\", such as \"shop-2026.11\""
          end
          @folder = File.expand_path(folder).freeze
          @root = File.join(@folder, namespace).freeze
        end

        # Makes the folders that are missing.
        # @return [void]
        # @raise [ConfigurationError] if others may write into one of them
        # @raise [SystemCallError]
        def prepare
          make(File.dirname(@folder), 0o777) unless File.exist?(@folder)
          [@folder, @root].each { |path| make_own(path) }
          [entries, tags].each { |path| make(path) }
        end

        # @return [String] the folders of all entries and tags
        def entries = File.join(@root, "e")

        def tags = File.join(@root, "t")

        # @return [String] the file with the counters and the lock of all changes
        def state = File.join(@root, "state")

        # @return [String] the file with the lock of the eviction
        def sweeper = File.join(@root, "sweep")

        # @param key [String]
        # @return [Array(String, String)] folder, and how the names of all its entries begin
        def shelf(key)
          hash = Digest::SHA256.hexdigest(key)
          ["#{@root}/e/#{hash[0, 2]}/#{hash[2, 2]}", hash[4..]]
        end

        # @param start [String] as of {#shelf}
        # @param entry [Entry]
        # @return [String] how the names of entries for the same requests begin
        def variant(start, entry) = "#{start}-#{entry.variant[0, 16]}"

        # @param name [String] of an entry's file
        # @return [String] start of its {Entry#variant}
        def variant_of(name) = name[61, 16]

        # @param variant [String] as of {#variant}
        # @return [String] a new name
        def name(variant) = "#{variant}-#{SecureRandom.hex(8)}.nbc"

        # @return [String] a name for a file that is being written
        def temporary = ".#{SecureRandom.hex(8)}.tmp"

        # @param tag [String]
        # @return [String] the tag's folder
        def tag(tag)
          hash = Digest::SHA256.hexdigest(tag)
          "#{@root}/t/#{hash[0, 2]}/#{hash[2..]}"
        end

        # @param folder [String] of an entry
        # @param name [String] its name
        # @return [String] the name of its file in a tag's folder
        def marker(folder, name) = "#{folder[-5, 2]}#{folder[-2, 2]}#{name}"

        # @param marker [String]
        # @return [String, nil] the entry's path; nil: it is none of ours
        def marked(marker)
          return unless NAME.match?(marker[4..].to_s) && PAIR.match?(marker[0, 2]) && PAIR.match?(marker[2, 2])
          "#{@root}/e/#{marker[0, 2]}/#{marker[2, 2]}/#{marker[4..]}"
        end

        # Makes a folder, and those above it.
        # @param path [String]
        # @return [void]
        # @raise [SystemCallError]
        def make(path, mode = FOLDER)
          Dir.mkdir(path, mode)
        rescue Errno::EEXIST
          links = mode != FOLDER # above the store's folder they are the administrator's
          raise Errno::ENOTDIR, path unless links ? File.directory?(path) : File.lstat(path).directory?
        rescue Errno::ENOENT
          raise if (attempts = attempts.to_i + 1) > ATTEMPTS || File.dirname(path) == path
          make(File.dirname(path), mode)
          retry
        end

        private

        # A folder in which others can rename or replace files is no place for what all users are shown.
        def make_own(path)
          make(path)
          status = File.lstat(path)
          refuse(path, "belongs to another user (#{status.uid}, this process is #{Process.euid})") unless status.owned?
          return if (status.mode & OTHERS_WRITE).zero?
          refuse(path, format("can be written by other users (mode %04o)", status.mode & 0o7777))
        rescue Errno::ENOTDIR, Errno::ELOOP
          refuse(path, "is not a folder, or is a link")
        end

        def refuse(path, reason)
          raise ConfigurationError, "the cache's folder #{path} #{reason}. Name a folder of this process's own, " \
            "which is made if it is missing; or take it from the others: chmod 700 #{path}"
        end
      end
    end
  end
end
