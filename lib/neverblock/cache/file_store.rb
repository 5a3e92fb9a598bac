# frozen_string_literal: true

require_relative "entry"
require_relative "guarded"
require_relative "limits"

module NeverBlock
  class Cache
    # Keeps entries in files, for all worker processes of a host.
    #
    #   store = FileStore.new("/var/cache/app", bytes: "2 GiB", namespace: "release-7", log: ->(line) { warn line })
    #   before = store.generation(key)          # then the response is fetched
    #   store.write(key, entry, generation: before)
    #   store.read(key)                         # => [entry], in any process
    #   store.purge_tag("news")                 # => 3
    #
    # A process may be killed at any time: an entry is complete, or not there. Damaged files are removed. If the disk is
    # full or can't be written, nothing is stored, and the errors are counted; no method raises. What the parts do:
    #
    #   layout.rb                   where what is, and whether the folder is safe
    #   state.rb, locked_state.rb   the counters of all processes, and their lock
    #   files.rb, body.rb           reads and removes the files of entries
    #   descriptors.rb, recent.rb   open files, and entries that this process has read lately
    #   writer.rb, purge.rb, sweep.rb, tree.rb   stores, removes and evicts
    #
    # The folder must be on a local disk: flock and rename have to be exact.
    class FileStore
      require_relative "file_store/layout"
      require_relative "file_store/state"
      require_relative "file_store/files"
      require_relative "file_store/descriptors"
      require_relative "file_store/writer"
      require_relative "file_store/purge"
      require_relative "file_store/sweep"

      include Guarded

      NONE = [].freeze
      # What may go wrong with files and folders at any time.
      TROUBLE = [SystemCallError, IOError, ConfigurationError, State::Busy, EntryFormat::Malformed, Body::Lost].freeze
      # A generation that could not be read; nothing that was fetched since is stored.
      UNKNOWN = :unknown
      COUNT = ValueType.count(least: 1)
      SIZE = ValueType.bytes
      SECONDS = ValueType.seconds(zero: true)
      private_constant :NONE, :UNKNOWN, :COUNT, :SIZE, :SECONDS

      # @param folder [String] is made if it is missing; belongs to this process's user alone
      # @param bytes [Integer, String] of all files, in whole clusters of 4 KiB
      # @param namespace [String] of an app and its release: a folder of its own
      # @param max_entries [Integer]
      # @param memory [Integer, String] bytes of entries that this process keeps in memory
      # @param descriptors [Integer] files that stay open while they are not read
      # @param log [#call, nil] gets a line when something goes wrong for the first time
      # @param patience [Numeric] seconds to wait for another process
      # @param touch [Numeric] seconds after which a file's time of use is set again
      # @param limits [Hash] see {Limits#initialize}
      # @raise [ConfigurationError] if the folder is not safe, or can't be made
      def initialize(folder, bytes:, namespace: "default", max_entries: 100_000, memory: 16 << 20, descriptors: 64,
        log: nil, patience: 2, touch: 60, **limits)
        @limits = Limits.new(bytes:, **limits)
        @layout = Layout.new(folder, namespace)
        guard(log, "the cache in #{@layout.root}")
        @evicted = 0
        @closed = false
        @touch = checked(SECONDS, :touch, touch)
        build(checked(COUNT, :max_entries, max_entries), checked(SIZE, :memory, memory),
          checked(COUNT, :descriptors, descriptors), checked(SECONDS, :patience, patience))
        prepare
      end

      # @return [Integer] bytes of the largest entry that is stored
      def max_entry = @limits.max_entry

      # @param key [String]
      # @yieldparam variant [String] start of an entry's {Entry#variant}
      # @yieldreturn [Boolean] whether it is wanted; others are left out, and are not in use by this read
      # @return [Array<Entry>] the newest first
      def read(key)
        return NONE if @closed || distrusted?
        @descriptors.tidy
        folder, start = @layout.shelf(key)
        names = attempt(NONE) { @files.names(folder, start) }
        names = names.select { |name| yield @layout.variant_of(name) } if block_given?
        found = names.filter_map { |name| attempt(nil) { entry(key, folder, name) } }
        return found.freeze if found.size < 2
        found.sort_by.with_index { |entry, index| [-entry.responded_at, index] }.uniq(&:vary).freeze
      end

      # One of a key's entries was used: others leave first, if there are too many.
      # @param _key [String]
      # @param entry [Entry]
      # @return [void]
      def touch(_key, entry)
        record = @recent.of(entry)
        return if record.nil? || now - record.touched_at < @touch
        record.touched_at = now
        attempt(nil) { File.lutime(Clock.time, Clock.time, record.path) }
        nil
      end

      # @param key [String]
      # @return [Object] to be given to {#write}, in any process; taken before a fetch begins. It stays equal until a
      #   purge that may concern the key
      def generation(key) = attempt(UNKNOWN) { @state.generation(key) }

      # Replaces the entry with equal `vary`. Waits for the disk.
      # @param key [String]
      # @param entry [Entry]
      # @param generation [Object, nil] as of {#generation}; nil: purges are not looked at
      # @return [Boolean] false: it is too large, was purged since, or the disk failed
      def write(key, entry, generation: nil)
        return refuse if @closed || !trusted? || !@limits.fit?(key, entry)
        stored, counts = attempt([false]) { @writer.put(key, entry, generation) }
        sweep if counts && @sweep.due?(counts)
        stored || refuse
      end

      # @param key [String]
      # @return [Integer] number of entries removed
      def purge(key) = purging { forget(@purge.key(key)) }

      # @param tag [String]
      # @return [Integer] number of entries removed
      def purge_tag(tag) = purging { forget(@purge.tag(tag)) }

      # @return [Integer] number of entries removed
      def clear
        purging do
          count = @purge.all
          @recent.clear
          trust
          count
        end
      end

      # Evicts what is too much, and removes what killed processes have left. The store does so itself when it is full,
      # and at a write an hour after the last time.
      # @return [Integer, nil] number of entries removed; nil: another process is sweeping, or the disk failed
      def sweep
        removed = attempt(nil) { @sweep.call }
        @counting.synchronize { @evicted += removed } if removed
        removed
      end

      # `entries`, `keys` and `bytes` are those of all processes, and not exact after a process was killed; the others
      # are this process's.
      # @return [Hash{Symbol=>Integer}]
      def stats
        counts = attempt({}) { @state.counts }
        {entries: counts.fetch(:entries, 0), keys: counts.fetch(:keys, 0), bytes: counts.fetch(:bytes, 0),
         limit: @limits.bytes, evicted: @evicted, refused: @refused, errors: @errors}
      end

      # This process stores and reads nothing from now on. The files stay.
      # @return [void]
      def close
        @closed = true
        @recent.clear
        @descriptors.close
      end

      private

      def build(max_entries, memory, descriptors, patience)
        @descriptors = Descriptors.new(descriptors)
        @files = Files.new(@descriptors) { |error| trouble(error) }
        @recent = Recent.new(memory)
        @state = State.new(@layout, patience:)
        @writer = Writer.new(@layout, @state, @files, @limits)
        @purge = Purge.new(@layout, @state, @files)
        @sweep = Sweep.new(@layout, @state, @purge, @limits, max_entries)
      end

      def checked(type, name, value) = type.setting(value) { "#{name}:" }

      def prepare
        @layout.prepare
        @state.counts
      rescue SystemCallError, State::Busy => error
        raise ConfigurationError, "the cache can't use the folder #{@layout.root}: #{error.message}. " \
          "Name one that this process can write"
      end

      def entry(key, folder, name)
        record = @recent[name]
        return use(record) if record && record.key == key
        path = File.join(folder, name)
        entry, status = @files.read(key, path)
        return if entry.nil?
        shown, touched = [status.atime, status.mtime].map { |time| now - (Clock.time - time) }
        use(@recent.add(name, Recent::Record.new(entry, path, key, shown, touched)))
      end

      # An entry whose file can't be opened any more is not there.
      def use(record)
        record.entry.body.hold unless record.entry.in_memory?
        show(record) if now - record.shown_at >= @touch
        record.entry
      rescue Body::Lost => error
        raise unless Errno::ENOENT === error.cause
        nil
      end

      # The time of access is the one by which entries are evicted; the time of change, the one by which a key's are.
      def show(record)
        record.shown_at = now
        File.lutime(Clock.time, File.lstat(record.path).mtime, record.path)
      rescue Errno::ENOENT
        nil
      end

      def forget(names)
        names.each { |path| @recent.delete(File.basename(path)) }
        names.size
      end
    end
  end
end
