# frozen_string_literal: true

require "fileutils"

module Conformance
  module Rails
    # A checkout of Rails, with Active Record's own tests, and the gems that they need.
    #
    #   tree = Tree.find
    #   tree.version           # => "8.1.3"
    #   tree.folders           # => {"adapters/postgresql" => ["test/cases/adapters/postgresql/active_schema_test.rb", ...], ...}
    class Tree
      VERSIONS = %w[7.2 8.0 8.1].freeze

      # Gems for its tests, and Active Record itself: loaded with Bundler, so that there is one version of each.
      # Minitest loads plugins of all installed gems, and these tests don't run with Minitest 6; nor do these releases
      # support json 3.
      GEMFILE = <<~RUBY
        source Gem.sources.to_a.first
        gem "activesupport", "~> %<series>s.0"
        gem "minitest", "~> 5.25"
        gem "json", "~> 2.9"
        %%w[bcrypt msgpack rack zeitwerk pg trilogy mysql2].each { |name| gem name }
      RUBY

      # Tests without a database.
      OTHERS = %r{\Atest/cases/(arel/|encryption/performance/)}
      ADAPTERS = "test/cases/adapters/"

      # Files that depend on the adapter most, by parts of their names; all files take five to thirty minutes.
      FILES = %w[adapters/ transaction query_cache connection_pool load_async locking insert_all batches statement_cache prepared
        schema_dumper fixtures migration].freeze

      # @return [Tree] the checkout that RAILS_SOURCE names
      # @raise [SourceTree::Missing]
      def self.find
        path = ENV["RAILS_SOURCE"].to_s
        raise SourceTree::Missing, "Active Record's own tests need a checkout of Rails: RAILS_SOURCE=/path/to/rails rake conformance:active_record" if path.empty?
        new(path)
      end

      # @return [String] its absolute path
      attr_reader :path

      def initialize(path)
        @path = File.expand_path(path)
        raise SourceTree::Missing, "#{@path} is no checkout of Rails: it has no activerecord/test/cases" unless File.directory?(join("test/cases"))
        raise SourceTree::Missing, "#{@path} is Rails #{version}. Supported: #{VERSIONS.join(", ")}" unless VERSIONS.include?(version[/\A\d+\.\d+/])
      end

      # @return [String]
      def version = File.read(File.join(@path, "RAILS_VERSION")).strip

      # @return [String] a path below activerecord
      def join(*parts) = File.join(@path, "activerecord", *parts)

      # @param adapters [Array<String>] folders of the adapters' own tests
      # @param only [Array<String>] parts of file names; empty for all
      # @return [Hash{String=>Array<String>}] test files by their folders
      def folders(adapters, only: [])
        files = Dir.glob("test/cases/**/*_test.rb", base: join).sort.grep_v(OTHERS)
        files.select! { |file| !file.start_with?(ADAPTERS) || adapters.any? { |name| file.start_with?("#{ADAPTERS}#{name}/") } }
        files = files.select { |file| only.any? { |word| file.include?(word) } } unless only.empty?
        raise ArgumentError, "#{only.join(", ")} is no part of any test file's name in #{join("test/cases")}" if files.empty?
        files.group_by { |file| File.dirname(file).delete_prefix("test/cases").delete_prefix("/") }
      end

      # @return [Array<String>] for the load path
      def libraries = %w[activerecord/lib activerecord/test activesupport/lib activemodel/lib].map { |folder| File.join(@path, folder) }

      # Installs the gems, once for each version and Ruby.
      # @return [String] a folder of gems
      def gems
        folder = File.join(SourceTree::ROOT, ".neverblock", "conformance", "rails-#{version}-ruby-#{RUBY_VERSION}")
        home = File.join(folder, "ruby", RbConfig::CONFIG["ruby_version"])
        return home if File.exist?(File.join(folder, "installed"))
        FileUtils.mkdir_p(folder)
        File.write(gemfile = File.join(folder, "Gemfile"), format(GEMFILE, series: version[/\A\d+\.\d+/]))
        command = [RbConfig.ruby, "-S", "bundle", "install", "--quiet"]
        system({**TestProcess::UNSET, "BUNDLE_GEMFILE" => gemfile, "BUNDLE_LOCKFILE" => nil, "BUNDLE_PATH" => folder, "BUNDLE_SILENCE_ROOT_WARNING" => "1"}, *command, chdir: folder) or raise SourceTree::Missing, "the gems of #{gemfile} could not be installed"
        FileUtils.touch(File.join(folder, "installed"))
        home
      end
    end
  end
end
