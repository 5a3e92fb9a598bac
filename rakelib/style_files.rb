# frozen_string_literal: true

require "fileutils"
require "open3"

# The Ruby files whose style has to be checked: those that differ from the last commit, and from the commit at which the
# last check passed. A file that nothing has changed since then is as good as it was.
#
#   files = StyleFiles.new
#   files.changed   # => ["lib/neverblock/task.rb"], or nil: all files
#   files.passed    # remembers the commit for the next check
class StyleFiles
  ROOT = File.expand_path("..", __dir__)
  # What decides about all files.
  RULES = %w[.standard.yml Gemfile].freeze
  PATTERNS = %w[*.rb *.rake *.gemspec *.ru Gemfile Rakefile].freeze

  # @param root [String] the checkout
  def initialize(root = ROOT)
    @root = root
    @passed = File.join(root, "tmp", "style_passed_at")
  end

  # @return [Array<String>, nil] paths below the checkout; nil if all files have to be checked: the rules differ, or this
  #   isn't a checkout of git
  def changed
    commits = ["HEAD", (File.read(@passed).chomp if File.exist?(@passed))].compact
    return if commits.any? { |commit| git("diff", "--name-only", commit, "--", *RULES) != [] }
    lists = commits.map { |commit| git("diff", "--name-only", "--diff-filter=d", commit, "--", *PATTERNS) }
    (lists.flatten + git("ls-files", "--others", "--exclude-standard", "--", *PATTERNS)).uniq.sort
  end

  # @return [void]
  def passed
    head = git("rev-parse", "HEAD") or return
    FileUtils.mkdir_p(File.dirname(@passed))
    File.write(@passed, "#{head.first}\n")
  end

  private

  # @return [Array<String>, nil] lines; nil if the command failed
  def git(*command)
    output, status = Open3.capture2("git", "-C", @root, *command, err: File::NULL)
    output.lines(chomp: true) if status.success?
  rescue Errno::ENOENT
    nil # there is no git
  end
end
