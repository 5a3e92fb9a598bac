# frozen_string_literal: true

# The gem:
#
#   rake build                                          # pkg/neverblock-VERSION.gem
#   NEVERBLOCK_FORGE=https://host/owner/name rake build # with another homepage than git's remote "origin"
require "fileutils"
require "rubygems/package"

# @return [String, nil] the web page of git's remote "origin", such as "https://host/owner/name"
def forge_of_origin(remote = IO.popen(%w[git remote get-url origin], err: File::NULL, &:read).to_s.strip)
  host, path = remote.match(%r{\A(?:(?:https|ssh)://)?(?:[^@/]+@)?([^/:]+\.[^/:]+)(?::\d+)?[:/](.+?)(?:\.git)?/?\z})&.captures
  "https://#{host}/#{path}" if host && !remote.start_with?("/", ".")
rescue Errno::ENOENT # no git
  nil
end

desc "Build the gem into pkg/"
task :build do
  FileUtils.mkdir_p("pkg")
  ENV["NEVERBLOCK_FORGE"] ||= forge_of_origin
  specification = Gem::Specification.load("neverblock.gemspec")
  Gem::Package.build(specification, false, false, File.join("pkg", specification.file_name))
end
