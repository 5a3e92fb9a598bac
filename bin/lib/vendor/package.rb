# frozen_string_literal: true

require "digest"
require "fileutils"
require_relative "refused"

module Vendor
  # What the gem consists of, in a checkout or an unpacked archive of it:
  #
  #   package = Package.new("/home/me/neverblock")
  #   package.revision           # => "51b7fe7e"
  #   package.copy_to("/home/me/shop/vendor/gems/neverblock")
  class Package
    # In the copy, next to the gem's own files: neverblock.gemspec looks for it.
    MARK = "REVISION"

    attr_reader :root

    # @param root [String] the checkout
    def initialize(root)
      @root = File.realpath(root)
    end

    # @return [String] such as "0.2.0"
    def version = specification.version.to_s

    # @return [String] the commit, or outside of git a digest of the files
    # @raise [Refused] if files are not as the commit has them: their builds would pass for the commit's
    def revision
      @revision ||= git? ? commit : digest
    end

    # Replaces a copy that is there already.
    # @return [void]
    def copy_to(folder)
      mark = File.join(folder, MARK)
      if File.exist?(folder) && !File.exist?(mark)
        raise Refused, "#{folder} is not bin/vendor's: it has no file #{MARK}.\nMove it away, and call bin/vendor again"
      end
      made = "#{folder}.new"
      FileUtils.rm_rf(made)
      files.each { |path| copy(path, made) }
      File.write(File.join(made, MARK), "#{revision}\n")
      FileUtils.rm_rf(folder)
      File.rename(made, folder)
    end

    private

    def specification
      @specification ||= Gem::Specification.load(File.join(@root, "neverblock.gemspec"))
    end

    def files = [*specification.files, "neverblock.gemspec"]

    def copy(path, folder)
      target = File.join(folder, path)
      FileUtils.mkdir_p(File.dirname(target))
      FileUtils.cp(File.join(@root, path), target)
    end

    # A checkout of git, and not a folder that another one's git ignores.
    def git? = File.exist?(File.join(@root, ".git")) && !git("rev-parse", "--verify", "--quiet", "HEAD").empty?

    def commit
      changed = git("status", "--porcelain", "--untracked-files=all", "--", *files.map { |path| path[%r{\A[^/]+}] }.uniq)
      return git("rev-parse", "--short=8", "HEAD").strip if changed.empty?
      raise Refused, "#{@root} has changes that no commit has: #{changed.lines.first.strip}" \
        "#{" (and #{changed.lines.size - 1} more)" if changed.lines.size > 1}.\nCommit them, or put them aside: git stash -u"
    end

    def digest
      files.sort.each_with_object(Digest::SHA256.new) { |path, sum|
        sum << path << "\0" << File.binread(File.join(@root, path))
      }.hexdigest[0, 8]
    end

    def git(*words)
      IO.popen(["git", "-C", @root, *words], err: File::NULL, &:read)
    rescue Errno::ENOENT # no git
      ""
    end
  end
end
