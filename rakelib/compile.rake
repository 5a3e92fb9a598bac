# frozen_string_literal: true

# Builds the C extension for the running Ruby:
#
#   rake compile                        # lib/neverblock/3.4/neverblock_ext.so
#   NEVERBLOCK_EXTCONF="--disable-uring" rake compile
#
# Every Ruby series has a build folder (tmp/<series>) and a target folder of its
# own, so that several Rubies share one checkout without treading on each other.
require "digest"
require "etc"
require "fileutils"
require "rbconfig"
require "shellwords"

# Knows where an extension build lives and whether it is still the right one.
class ExtensionBuild
  ROOT = File.expand_path("..", __dir__)
  SOURCE = File.join(ROOT, "ext", "neverblock")
  NAME = "neverblock_ext.#{RbConfig::CONFIG["DLEXT"]}"

  # @param variant [String, nil] names a build that is not the one users get, and
  #   leaves it in its build folder, where `-I tmp/SERIES-VARIANT/lib` finds it
  # @param arguments [Array<String>] for extconf.rb
  # @param warnflags [String, nil] for the compiler, in place of Ruby's own
  def initialize(variant: nil, arguments: Shellwords.split(ENV.fetch("NEVERBLOCK_EXTCONF", "")), warnflags: nil)
    series = RUBY_VERSION[/\d+\.\d+/]
    @folder = File.join(ROOT, "tmp", [series, variant].compact.join("-"))
    @library = variant ? File.join(@folder, "lib") : File.join(ROOT, "lib")
    @target = File.join(@library, "neverblock", series, NAME)
    @arguments = arguments
    @warnflags = warnflags
  end

  attr_reader :folder, :library, :target

  # Compiles unless the target was made from exactly these sources, by this Ruby,
  # with these flags. Returns whether anything was done. One process at a time, since tests build too.
  def call
    return false if fresh?
    FileUtils.mkdir_p(@folder)
    File.open("#{@folder}.lock", File::RDWR | File::CREAT) do |lock|
      lock.flock(File::LOCK_EX)
      fresh? ? false : build
    end
  end

  # One hash over everything the compiled file depends on. File contents, not
  # times: a checkout of another branch touches times at random.
  def digest
    @digest ||= sources.each_with_object(Digest::SHA256.new << identity) { |path, sum|
      sum << path.delete_prefix(SOURCE) << "\0" << File.binread(path)
    }.hexdigest
  end

  private

  def build
    FileUtils.rm_f(stamp)
    Dir.chdir(@folder) do
      configure unless configured?
      system("make", "-j#{jobs}", *("warnflags=#{@warnflags}" if @warnflags), exception: true)
    end
    install
    File.write(stamp, digest)
    true
  end

  def fresh? = File.exist?(@target) && File.exist?(stamp) && File.read(stamp) == digest

  def stamp = File.join(@folder, "built")

  def sources = Dir[File.join(SOURCE, "**", "*.{c,h,rb}")].sort

  def identity = [RUBY_DESCRIPTION, RbConfig.ruby, @arguments, @warnflags, liburing].inspect

  # Installed or removed since the last build, liburing asks for another one.
  def liburing = `pkg-config --modversion liburing 2>/dev/null`.strip

  # The Makefile lists the files and flags, and mkmf's rules follow only the
  # headers beside extconf.rb: when anything but C code changed, start over.
  def configured?
    File.exist?("Makefile") && File.exist?("configured") && File.read("configured") == layout
  end

  def layout
    headers = sources.reject { |path| path.end_with?(".c") }.map { |path| Digest::SHA256.file(path).hexdigest }
    (sources + headers + [identity]).join("\n")
  end

  # A relative path, since mkmf cannot cope with a blank in an absolute one.
  def configure
    FileUtils.rm_rf(Dir.children("."))
    system(RbConfig.ruby, File.join("..", "..", "ext", "neverblock", "extconf.rb"), *@arguments, exception: true)
    File.write("configured", layout)
  end

  # A new inode, never a write into the old file: a running process may have it mapped.
  def install
    built = [File.join(@folder, NAME), File.join(@folder, "neverblock", NAME)].find { |path| File.exist?(path) }
    raise "make made no #{NAME} in #{@folder}: see #{File.join(@folder, "mkmf.log")}" unless built
    FileUtils.mkdir_p(File.dirname(@target))
    FileUtils.cp(built, "#{@target}.new")
    File.rename("#{@target}.new", @target)
  end

  def jobs = Etc.nprocessors
end

desc "Compile the C extension for this Ruby"
task :compile do
  build = ExtensionBuild.new
  puts build.call ? "compiled #{build.target}" : "#{build.target} is up to date"
end

desc "Remove what the builds made, for all Rubies"
task :clean do
  FileUtils.rm_rf(Dir["tmp/[0-9]*"] + Dir["lib/neverblock/[0-9]*"])
end
