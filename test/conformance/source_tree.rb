# frozen_string_literal: true

require "fileutils"
require "open3"
require "rbconfig"
require "tmpdir"

module Conformance
  # The source tree of the running Ruby, with Ruby's own tests and the test extensions that those load.
  #
  #   tree = Conformance::SourceTree.find
  #   tree.files("test/ruby/test_io*.rb")  # => ["test/ruby/test_io.rb", ...]
  #   tree.extensions                      # a folder for -I
  class SourceTree
    ROOT = File.expand_path("../..", __dir__)
    VERSION = RUBY_VERSION

    # There is no tree, or one of another Ruby. The message has the remedy.
    class Missing < StandardError; end

    # @return [SourceTree] the tree that RUBY_SOURCE names, otherwise the one that bin/setup knows
    # @raise [Missing] if there is none for exactly this Ruby
    def self.find
      path = ENV["RUBY_SOURCE"].to_s
      path = known_to_setup if path.empty?
      new(path)
    end

    # Asks the shell functions of bin/setup, which may unpack an archive.
    def self.known_to_setup
      script = '. bin/lib/main.sh && NB_RUBY_VERSION=$1 && find_source >&2 && printf %s "$RUBY_SOURCE"'
      path, status = Open3.capture2("bash", "-c", script, "bash", VERSION, chdir: ROOT)
      return path if status.success?
      raise Missing, <<~TEXT
        Ruby's own tests need the source tree of Ruby #{VERSION}, and none was found. Either
          bin/test                                     looks for it, and asks the distribution's archive
          RUBY_SOURCE=/path/to/ruby-#{VERSION} rake conformance:ruby
      TEXT
    end
    private_class_method :known_to_setup

    # @return [String] its absolute path
    attr_reader :path

    # @param path [String] the root of the tree
    def initialize(path)
      @path = File.expand_path(path)
      check
    end

    # @param pattern [String] a glob below the root
    # @return [Array<String>] the files that match, relative to the root
    # @raise [Missing] if none does
    def files(pattern)
      found = Dir.glob(pattern, base: path).sort
      found.any? ? found : raise(Missing, "#{path} has no #{pattern}: is the tree complete?")
    end

    # @return [String] the absolute path of one of its files
    def join(*parts) = File.join(path, *parts)

    # Compiles the extensions that the given tests load, once for each Ruby. Installed Rubies lack them.
    # @param files [Array<String>] test files of this tree
    # @return [String] a folder for the load path
    def extensions(files)
      needed = files.flat_map { |file| File.binread(join(file)).scan(%r{-test-/[\w/]+}) }.uniq.filter_map { |name| extension_folder(name) }.uniq
      FileUtils.mkdir_p(extensions_root)
      # Two runs at the same time must not build into one folder.
      File.open(File.join(extensions_root, "lock"), "w") do |lock|
        lock.flock(File::LOCK_EX)
        needed.each { |name| compile(name) }
      end
      File.join(extensions_root, "lib")
    end

    # A copy of test/fiber with another file in place of the sample scheduler.
    # @param replacement [String] path of the Ruby file
    # @yieldparam folder [String] the copy, removed when the block ends
    def with_scheduler(replacement)
      Dir.mktmpdir("nb") do |folder|
        FileUtils.cp_r(join("test/fiber", "."), folder)
        FileUtils.rm_f(File.join(folder, "scheduler.rb"))
        FileUtils.cp(replacement, File.join(folder, "scheduler.rb"))
        yield folder
      end
    end

    private

    def check
      header = join("include/ruby/version.h")
      unless File.file?(header) && File.directory?(join("test/ruby"))
        raise Missing, "#{path} is no source tree of Ruby: it must hold include/ruby/version.h and test/ruby."
      end
      return if version == VERSION
      raise Missing, "#{path} is the source of Ruby #{version}, but Ruby #{VERSION} is running. " \
        "Set RUBY_SOURCE to the tree of #{VERSION}, or unset it to have one looked for."
    end

    def version
      [File.read(join("include/ruby/version.h"))[/RUBY_API_VERSION_MAJOR (\d+)/, 1],
        File.read(join("include/ruby/version.h"))[/RUBY_API_VERSION_MINOR (\d+)/, 1],
        File.read(join("version.h"))[/RUBY_VERSION_TEENY (\d+)/, 1]].join(".")
    end

    # One folder per Ruby and tree.
    def extensions_root
      @extensions_root ||= begin
        identity = [RUBY_DESCRIPTION, RbConfig.ruby, path].join("\n").sum(32).to_s(16)
        File.join(ROOT, ".neverblock", "conformance", "ruby-#{VERSION}-#{identity}")
      end
    end

    # "-test-/fatal/rb_fatal" may be a part of the extension "-test-/fatal". nil for plain Ruby files.
    def extension_folder(name)
      name = File.dirname(name) until name == "-test-" || File.exist?(join("ext", name, "extconf.rb"))
      name unless name == "-test-"
    end

    def compile(name)
      folder = File.join(extensions_root, "build", name)
      return if File.exist?(File.join(folder, "built"))
      FileUtils.mkdir_p(folder)
      library = File.join(extensions_root, "lib")
      log = File.join(folder, "log")
      # A copy, since make would use the objects of a tree that has been built. The extconf.rb expects mkmf, and
      # internal headers in top_srcdir.
      copy = File.join(folder, "ext", name)
      FileUtils.mkdir_p(copy)
      FileUtils.cp(Dir[join("ext", name, "{*.c,*.h,*.rb,depend}")], copy)
      FileUtils.cp(join("ext/-test-/auto_ext.rb"), File.join(folder, "ext", "-test-"))
      [[RbConfig.ruby, "-rmkmf", File.join(copy, "extconf.rb")],
        ["make", "top_srcdir=#{path}", "sitearchdir=#{library}", "sitelibdir=#{library}", "install"]].each do |command|
        next if system({"RUBYOPT" => nil, "MAKEFLAGS" => nil}, *command, chdir: folder, out: [log, "a"], err: %i[child out])
        raise Missing, "The test extension #{name} could not be compiled: see #{log}\n#{File.readlines(log).last(10).join}"
      end
      File.write(File.join(folder, "built"), "")
    end
  end
end
