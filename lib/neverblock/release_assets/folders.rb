# frozen_string_literal: true

require_relative "../runtime/monotonic_clock"

module NeverBlock
  class ReleaseAssets
    # The public folders of an app's releases.
    #
    #   folders = Folders.new("/var/www/shop/releases/*/public", keep: 3, current: "/var/www/shop/current/public")
    #   folders.with("/assets/application-4f2a91c0.css")&.file("/assets/application-4f2a91c0.css")
    #
    # They are looked up again after a second; so is a file that no release has had.
    # @api private
    class Folders
      include MonotonicClock

      # Propshaft: logo-4f2a91c0.svg. Sprockets: logo-4f2a91c0….svg, application.js-4f2a91c0….map. No character is
      # encoded, and no part of the path begins with a dot.
      ASSET = %r{\A(?:/[A-Za-z0-9_@][A-Za-z0-9_@.+~-]*)*-[0-9a-f]{7,128}(?:\.[A-Za-z0-9_]+)+\z}
      LONGEST = 1_000
      LASTING = 1 # second
      MISSING = 1_000 # paths
      # A file that was changed so recently may not be complete.
      SETTLED = 2 # seconds
      private_constant :ASSET, :LONGEST, :LASTING, :MISSING, :SETTLED

      # One of them, with all links resolved.
      class Folder
        # @param root [String]
        def initialize(root)
          @root = root
          @start = "#{root}/"
        end

        # @return [String]
        attr_reader :root

        # @param path [String] one that {Folders.asset?} accepts, perhaps with another ending
        # @return [String, nil] where the file is; nil: there is none, or it is outside of the folder
        def file(path)
          real = File.realpath(File.join(@root, path))
          return unless real.start_with?(@start)
          status = File.stat(real)
          real if status.file? && !(Clock.time - status.mtime).between?(0, SETTLED)
        rescue SystemCallError
          nil
        end
      end
      private_constant :Folder

      # @param path [String] of a URL
      # @return [Boolean] whether it is that of an asset with a digest in its name
      def self.asset?(path) = path.bytesize <= LONGEST && path.ascii_only? && ASSET.match?(path)

      # @param patterns [String, Array<String>]
      # @param keep [Integer]
      # @param current [String]
      # @raise [ConfigurationError]
      def initialize(patterns, keep:, current:)
        @patterns = [*patterns]
        unless !@patterns.empty? && @patterns.all? { |pattern| String === pattern && pattern.start_with?("/") }
          raise ConfigurationError, "ReleaseAssets: releases: #{patterns.inspect} are not absolute paths, such as " \
            "\"/var/www/shop/releases/*/public\""
        end
        @keep = keep
        @current = real(current.to_s)
        @lock = Thread::Mutex.new
        @missing = {}
        @found_at = nil
      end

      # @param path [String]
      # @return [Folder, nil] the newest other release that has this file; nil: none, or the current one has it
      def with(path)
        return if missing?(path)
        return if @current && Folder.new(@current).file(path)
        folder = folders.find { |one| one.file(path) }
        folder || note(path)
      end

      private

      def folders
        @lock.synchronize do
          next @folders if @found_at && now - @found_at < LASTING
          @found_at = now
          @folders = find
        end
      end

      # A deployment may put its releases anywhere, so the newest is the one whose folder was changed last.
      def find
        roots = Dir.glob(@patterns).filter_map { |path| real(path) }.uniq - [@current]
        dated = roots.filter_map { |root| [File.mtime(root), root] if File.directory?(root) }
        dated.max(@keep).map { |_, root| Folder.new(root) }
      rescue SystemCallError
        [] # one is being removed; they are looked up again
      end

      def real(path)
        File.realpath(path)
      rescue SystemCallError
        nil
      end

      def missing?(path)
        @lock.synchronize do
          noted = @missing[path] or next false
          now - noted < LASTING || !@missing.delete(path)
        end
      end

      def note(path)
        @lock.synchronize do
          @missing.delete(path)
          @missing[path] = now
          @missing.shift if @missing.size > MISSING
        end
        nil
      end
    end
  end
end
