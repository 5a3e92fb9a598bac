# frozen_string_literal: true

require_relative "tree"

module NeverBlock
  class Cache
    class FileStore
      # Makes room: removes the entries that were not used for longest, files that killed processes have left, and
      # files in the folders of tags whose entry is gone. One process does so at a time, and no other waits for it.
      #
      #   sweep.call if sweep.due?(counts)    # => number of entries removed; nil: another process is at it
      #
      # It is also the time when the counters become exact again.
      # @api private
      class Sweep
        # It goes on until there is this much room.
        GOAL = 0.9
        HOURLY = 3_600
        # A file that was being written so long ago was left by a killed process.
        ABANDONED = 600
        # Files in the folders of tags, which are looked at with the lock held.
        AT_ONCE = 50
        private_constant :GOAL, :HOURLY, :ABANDONED, :AT_ONCE

        # @param layout [Layout]
        # @param state [State]
        # @param purge [Purge]
        # @param limits [Limits]
        # @param max_entries [Integer]
        def initialize(layout, state, purge, limits, max_entries)
          @layout = layout
          @state = state
          @purge = purge
          @limits = limits
          @max_entries = max_entries
        end

        # @param counts [Hash] see {LockedState#counts}
        # @return [Boolean]
        def due?(counts)
          age = wall_clock - counts[:swept_at]
          counts[:bytes] > @limits.bytes || counts[:entries] > @max_entries || counts[:links] > @max_entries ||
            !age.between?(-HOURLY, HOURLY)
        end

        # @return [Integer, nil]
        # @raise [SystemCallError, State::Busy]
        def call
          flags = File::RDWR | File::CREAT | File::NOFOLLOW
          File.open(@layout.sweeper, flags, Layout::FILE, binmode: true) do |file|
            sweep if file.flock(File::LOCK_EX | File::LOCK_NB)
          end
        end

        private

        def sweep
          before = @state.counts
          @purge.finish
          found = entries
          removed = evict(found)
          clean_tags
          record(before, found.drop(removed))
          removed
        end

        # @return [Array<Array(Float, Integer, String)>] when it was used, its bytes, its path; the longest unused first
        def entries
          found = []
          Tree.each(@layout.entries, 3) do |path|
            status = File.lstat(path)
            name = File.basename(path)
            if Layout::NAME.match?(name)
              found << [[status.atime, status.mtime].max.to_f, Files.room(status.size), path]
            elsif Layout::TEMPORARY.match?(name) && wall_clock - status.mtime.to_f > ABANDONED
              File.unlink(path)
            end
          rescue Errno::ENOENT
            next
          end
          found.sort_by!(&:first)
        end

        # @return [Integer] so many of the first are gone
        def evict(found)
          bytes = found.sum { |_, size, _| size }
          left = found.size
          return 0 unless bytes > @limits.bytes || left > @max_entries
          found.each do |_, size, path|
            break if bytes <= @limits.bytes * GOAL && left <= @max_entries * GOAL
            remove(path)
            bytes -= size
            left -= 1
            sleep 0 if (left % AT_ONCE).zero?
          end
          found.size - left
        end

        # An entry's files in the folders of tags are made just before the entry, with the lock held.
        def clean_tags
          Tree.each(@layout.tags, 2) do |folder|
            Dir.children(folder).each_slice(AT_ONCE) do |names|
              gone = ->(name) { (path = @layout.marked(name)) && !File.exist?(path) }
              next if names.none?(&gone)
              @state.locked { names.select(&gone).each { |name| remove(File.join(folder, name)) } }
            end
            Dir.rmdir(folder) # unless it is in use
          rescue Errno::ENOENT, Errno::ENOTEMPTY, Errno::EEXIST, Errno::ENOTDIR
            next
          end
        end

        # What was stored and removed by others meanwhile is only counted, since it is unknown what of it was seen.
        def record(before, left)
          keys = left.map { |_, _, path| path[0, path.length - File.basename(path).length + 60] }.uniq.size
          exact = {bytes: left.sum { |_, size, _| size }, entries: left.size, keys:}
          @state.locked do |locked|
            now = locked.counts
            next locked.set(swept_at: 0) unless now[:all] == before[:all]
            since = exact.to_h { |name, _| [name, [now[name] - before[name], 0].max] }
            locked.set(links: 0, swept_at: wall_clock.to_i, **exact.merge(since) { |_, one, other| one + other })
          end
        end

        def remove(path)
          File.unlink(path)
        rescue Errno::ENOENT
          nil
        end

        def wall_clock = Clock.wall
      end
    end
  end
end
