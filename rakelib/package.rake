# frozen_string_literal: true

# The gem:
#
#   rake build          # pkg/neverblock-VERSION.gem
require "fileutils"
require "rubygems/package"

desc "Build the gem into pkg/"
task :build do
  FileUtils.mkdir_p("pkg")
  specification = Gem::Specification.load("neverblock.gemspec")
  Gem::Package.build(specification, false, false, File.join("pkg", specification.file_name))
end
