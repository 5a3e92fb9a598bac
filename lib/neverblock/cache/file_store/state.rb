# frozen_string_literal: true

require "securerandom"
require_relative "../../runtime/monotonic_clock"
require_relative "locked_state"

module NeverBlock
  class Cache
    class FileStore
      # A file that all processes of a store share: which keys and tags were purged, how much is stored, and by its lock
      # (flock) one turn for each change. The kernel releases the lock of a process that is killed.
      #
      #   before = state.generation(key)
      #   state.locked do |locked|             # {LockedState}
      #     File.rename(temporary, path) unless locked.since?(before, key, tags)
      #   end
      #
      # Purges have numbers, as in {Purges}. A file that is missing, or damaged, begins anew with another identity, and
      # generations of the old one count as too old.
      # @api private
      class State
        include MonotonicClock

        # Another process has kept the lock for too long: it is stopped, or its disk hangs.
        class Busy < StandardError
          include Error
        end

        PATIENCE = 2 # seconds
        PAUSE = 0.001
        ATTEMPTS = 10
        private_constant :PATIENCE, :PAUSE, :ATTEMPTS

        # @param layout [Layout]
        # @param patience [Numeric] seconds to wait for the lock
        def initialize(layout, patience: PATIENCE)
          @layout = layout
          @patience = patience
        end

        # @param key [String]
        # @return [Array(String, Integer)] equal until a purge that may concern the key
        # @raise [SystemCallError, Busy]
        def generation(key)
          under(File::LOCK_SH) { |locked| return locked.generation(key) if locked.valid? }
          locked { |locked| locked.generation(key) }
        end

        # @return [Hash{Symbol=>Integer}] what is stored
        # @raise [SystemCallError, Busy]
        def counts
          under(File::LOCK_SH) { |locked| return locked.counts if locked.valid? }
          locked(&:counts)
        end

        # The only one that changes something in the store, in any process.
        # @yieldparam locked [LockedState]
        # @return [Object] the block's value
        # @raise [SystemCallError, Busy]
        def locked
          under(File::LOCK_EX) do |locked|
            locked.begin_anew unless locked.valid?
            yield locked
          end
        end

        # Takes the lock from a process that does not release it. What that process does afterwards, it undoes, and what
        # is being fetched now is not stored.
        # @return [void]
        # @raise [SystemCallError]
        def replace
          path = File.join(@layout.root, @layout.temporary)
          File.open(path, File::RDWR | File::CREAT | File::EXCL | File::NOFOLLOW, Layout::FILE, binmode: true) do |file|
            LockedState.new(file, @layout.state).begin_anew
          end
          File.rename(path, @layout.state)
        end

        private

        # The file may have been replaced, with all of the folder, between opening and locking.
        def under(mode)
          ATTEMPTS.times do
            file = open_file
            begin
              wait_for(file, mode)
              locked = LockedState.new(file, @layout.state)
              return yield(locked) if locked.current?
            ensure
              file.close
            end
          end
          raise Busy, "the file #{@layout.state} is replaced again and again"
        end

        def open_file
          File.open(@layout.state, File::RDWR | File::CREAT | File::NOFOLLOW, Layout::FILE, binmode: true)
        rescue Errno::ENOENT
          @layout.prepare
          File.open(@layout.state, File::RDWR | File::CREAT | File::NOFOLLOW, Layout::FILE, binmode: true)
        end

        def wait_for(file, mode)
          deadline = nil
          until file.flock(mode | File::LOCK_NB)
            deadline ||= now + @patience
            raise Busy, "another process has kept the lock of #{@layout.state} for #{@patience} s" if now > deadline
            sleep PAUSE
          end
        end
      end
    end
  end
end
