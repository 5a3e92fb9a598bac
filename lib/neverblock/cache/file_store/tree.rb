# frozen_string_literal: true

module NeverBlock
  class Cache
    class FileStore
      # Walks through folders. Other fibers and threads get their turn meanwhile (`sleep 0`, for any scheduler),
      # because a store may have a hundred thousand files. What is removed meanwhile is left out.
      #
      #   Tree.each("/var/cache/app/release-7/e", 3) { |path| … }    # e/1f/8a/NAME
      #   Tree.remove("/var/cache/app/release-7/e.5d…")              # => number of entries
      # @api private
      module Tree
        # After so many files others get a turn: about a millisecond.
        AT_ONCE = 64
        private_constant :AT_ONCE

        class << self
          # @param folder [String]
          # @param depth [Integer] levels below the folder
          # @yieldparam path [String]
          # @return [void]
          # @raise [SystemCallError]
          def each(folder, depth, count = [0], &block)
            children(folder) do |path|
              sleep 0 if ((count[0] += 1) % AT_ONCE).zero?
              (depth == 1) ? yield(path) : each(path, depth - 1, count, &block)
            end
          end

          # Removes a folder with all that is in it. Links are not followed.
          # @param path [String]
          # @return [Integer] entries that were in it
          # @raise [SystemCallError]
          def remove(path, count = [0])
            sleep 0 if ((count[0] += 1) % AT_ONCE).zero?
            return file(path) unless File.lstat(path).directory?
            found = 0
            children(path) { |child| found += remove(child, count) }
            Dir.rmdir(path)
            found
          rescue Errno::ENOENT, Errno::ENOTEMPTY
            found || 0
          end

          private

          def children(folder)
            Dir.children(folder).each { |name| yield "#{folder}/#{name}" }
          rescue Errno::ENOENT, Errno::ENOTDIR
            nil
          end

          def file(path)
            File.unlink(path)
            (Layout::NAME.match?(File.basename(path)) && !File.basename(path).start_with?(".")) ? 1 : 0
          end
        end
      end
    end
  end
end
