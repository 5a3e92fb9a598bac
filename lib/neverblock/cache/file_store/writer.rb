# frozen_string_literal: true

require_relative "../entry_format"

module NeverBlock
  class Cache
    class FileStore
      # Stores an entry: writes a file under a temporary name, and gives it the entry's name if no purge has come since.
      # A process that is killed leaves a temporary file, which the next {Sweep} removes, or a complete entry.
      # @api private
      class Writer
        # A store may be this much over its limit while it is swept.
        EXCESS = 1.25
        ATTEMPTS = 4
        CREATE = File::WRONLY | File::CREAT | File::EXCL | File::NOFOLLOW
        private_constant :EXCESS, :ATTEMPTS, :CREATE

        # @param layout [Layout]
        # @param state [State]
        # @param files [Files]
        # @param limits [Limits]
        def initialize(layout, state, files, limits)
          @layout = layout
          @state = state
          @files = files
          @limits = limits
          @most_bytes = (limits.bytes * EXCESS).to_i
        end

        # @param key [String]
        # @param entry [Entry]
        # @param generation [Object, nil] as of {State#generation}; nil: purges are not looked at
        # @return [Array(Boolean, Hash)] whether it was stored, and what is stored now ({LockedState#counts})
        # @raise [SystemCallError, IOError, State::Busy, EntryFormat::Malformed, Body::Lost]
        def put(key, entry, generation)
          attempts ||= 0
          folder, start = @layout.shelf(key)
          temporary = File.join(folder, @layout.temporary)
          size = save(temporary, key, entry)
          @state.locked { |locked| commit(locked, key, entry, generation, folder, start, temporary, size) }
        rescue Errno::ENOENT # it is the folder's first entry, or all was cleared meanwhile
          remove(temporary)
          raise if (attempts += 1) == ATTEMPTS
          @layout.make(folder)
          retry
        ensure
          remove(temporary) if temporary
        end

        private

        def save(path, key, entry)
          size = 0
          # File::BINARY does nothing on Linux. With an internal encoding, as in Rails, Ruby would convert what is
          # written.
          File.open(path, CREATE, Layout::FILE, binmode: true) do |file|
            file.sync = true # nothing is left to be written when it is closed
            EntryFormat.each(key, entry) { |string| size += file.write(string) }
          end
          size
        end

        def commit(locked, key, entry, generation, folder, start, temporary, size)
          bytes = Files.room(size)
          counts = locked.counts
          return [false, counts] if generation && locked.since?(generation, key, entry.tags)
          return [false, counts] if counts[:bytes] + bytes > @most_bytes
          variant = @layout.variant(start, entry)
          present = @files.names(folder, start)
          name = @layout.name(variant)
          mark(entry.tags, @layout.marker(folder, name))
          place(locked, temporary, File.join(folder, name))
          removed = leaving(folder, present, variant).filter_map { |one| @files.remove(File.join(folder, one)) }
          locked.add(bytes: bytes - removed.sum, entries: 1 - removed.size, keys: present.empty? ? 1 : 0,
            links: entry.tags.size)
          [true, locked.counts]
        end

        # Before the entry has its name, so that no entry is ever found that a purge of its tags would not find.
        def mark(tags, name)
          tags.each do |tag|
            path = File.join(folder = @layout.tag(tag), name)
            File.open(path, CREATE, Layout::FILE, binmode: true).close
          rescue Errno::ENOENT
            @layout.make(folder)
            File.open(path, CREATE, Layout::FILE, binmode: true).close
          end
        end

        def place(locked, temporary, path)
          File.rename(temporary, path)
          return if locked.current?
          File.unlink(path)
          raise State::Busy, "this process was stopped for long, and others have gone on without it"
        end

        # @return [Array<String>] names of entries that go when a new one has come
        def leaving(folder, present, variant)
          same, others = present.partition { |name| name.start_with?("#{variant}-") }
          surplus = others.size + 1 - @limits.max_variants
          return same unless surplus.positive?
          same + others.min_by(surplus) { |name| touched_at(File.join(folder, name)) }
        end

        def touched_at(path)
          File.lstat(path).mtime.to_f
        rescue Errno::ENOENT
          0.0
        end

        def remove(path)
          File.unlink(path)
        rescue SystemCallError
          nil # it has its name; or the next sweep removes it
        end
      end
    end
  end
end
