# frozen_string_literal: true

require "securerandom"
require_relative "tree"

module NeverBlock
  class Cache
    class FileStore
      # Removes entries by key or tag, or all of them, also from other processes' view and from their fetches that are
      # under way. First the purge is recorded: from then on nothing is stored that was fetched before. Then it removes
      # what has been stored until then.
      #
      #   purge.key("https://example.org/")    # => number of entries removed
      #   purge.tag("news")
      #   purge.all
      # @api private
      class Purge
        ATTEMPTS = 3
        private_constant :ATTEMPTS

        # @param layout [Layout]
        # @param state [State]
        # @param files [Files]
        def initialize(layout, state, files)
          @layout = layout
          @state = state
          @files = files
        end

        # @param key [String]
        # @return [Array<String>] names of the files
        # @raise [SystemCallError, State::Busy]
        def key(key)
          folder, start = @layout.shelf(key)
          recorded do |locked|
            locked.purge(key)
            removed = removed(@files.names(folder, start).map { |name| File.join(folder, name) })
            locked.add(freed(removed, keys: removed.empty? ? 0 : 1))
            removed.keys
          end
        end

        # @param tag [String]
        # @return [Array<String>] names of the files
        # @raise [SystemCallError, State::Busy]
        def tag(tag)
          path = @layout.tag(tag)
          recorded do |locked|
            locked.purge_tag(tag)
            put_aside(path)
          end
          removed = aside(path).map { |folder| tagged(folder) }.reduce({}, :merge)
          keys = removed.keys.group_by { |entry| [File.dirname(entry), File.basename(entry)[/\A\h+/]] }.keys
          gone = keys.count { |folder, start| @files.names(folder, start).empty? }
          @state.locked { |locked| locked.add(freed(removed, keys: gone)) } unless removed.empty?
          removed.keys
        end

        # @return [Integer] number of entries
        # @raise [SystemCallError, State::Busy]
        def all
          recorded do |locked|
            locked.purge_all
            [@layout.entries, @layout.tags].each { |path| put_aside(path) }
            locked.set(bytes: 0, entries: 0, keys: 0, links: 0)
            @layout.prepare
          end
          [@layout.entries, @layout.tags].flat_map { |path| aside(path) }.sum { |path| Tree.remove(path) }
        end

        # Finishes purges of processes that were killed.
        # @return [void]
        # @raise [SystemCallError]
        def finish
          [@layout.entries, @layout.tags].flat_map { |path| aside(path) }.each { |path| Tree.remove(path) }
          Tree.each(@layout.tags, 2) { |path| tagged(path) if File.basename(path).include?(".") }
        end

        private

        # A process that does not release the lock must not hold up a purge. If it was this one, and others have gone on
        # without it, the purge is in a file that no process looks at, and is repeated.
        def recorded
          ATTEMPTS.times do
            done = in_turn { |locked| [yield(locked), locked.current?] }
            return done.first if done.last
          end
          raise State::Busy, "the lock of the cache in #{@layout.root} is taken away again and again"
        end

        def in_turn(&)
          @state.locked(&)
        rescue State::Busy
          @state.replace
          @state.locked(&)
        end

        # From the next moment on its entries are not found by this path.
        def put_aside(path)
          File.rename(path, "#{path}.#{SecureRandom.hex(8)}")
        rescue Errno::ENOENT
          nil
        end

        # @return [Array<String>] what was put aside, also by processes that were killed
        def aside(path)
          folder, name = File.split(path)
          Dir.children(folder).filter_map { |one| File.join(folder, one) if one.start_with?("#{name}.") }
        rescue Errno::ENOENT
          []
        end

        # @return [Hash{String=>Integer}] paths and bytes of the removed entries
        def tagged(folder)
          names = Dir.children(folder)
          found = removed(names.filter_map { |name| @layout.marked(name) })
          Tree.remove(folder)
          found
        rescue Errno::ENOENT
          {}
        end

        def removed(paths) = paths.to_h { |path| [path, @files.remove(path)] }.compact

        def freed(removed, keys:) = {bytes: -removed.values.sum, entries: -removed.size, keys: -keys}
      end
    end
  end
end
