# frozen_string_literal: true

require "fileutils"
require "tmpdir"

module NeverBlockTest
  # A folder for tests of the cache's file store, and what is in it.
  #
  #   include NeverBlockTest::CacheFolder     # beside CacheStoreContract or its helpers
  module CacheFolder
    def setup
      super
      @folder = Dir.mktmpdir("neverblock-cache-test")
      @lines = []
    end

    def teardown
      @store&.close
      FileUtils.remove_entry(@folder)
      super
    end

    private

    def new_store(bytes: 64 << 20, touch: 0, **options)
      NeverBlock::Cache::FileStore.new(path, bytes:, touch:, log: ->(line) { @lines << line }, **options)
    end

    def path(*names) = File.join(@folder, "cache", *names)

    # @return [Array<String>] all folders and files of the store
    def all_paths = Dir.glob(path("**/*"), File::FNM_DOTMATCH)

    # @return [Array<String>] files of entries
    def files = all_paths.grep(/\.nbc\z/).grep_v(%r{/t/})

    # @return [Array<String>] files in the folders of tags
    def markers = all_paths.grep(%r{/t/.*\.nbc\z})

    # @return [Array<String>] files that are being written
    def temporary = all_paths.grep(/\.tmp\z/)

    # As if it had all been stored an hour ago.
    def age_all
      before = Time.now - 3_600
      files.each { |path| File.utime(before, before, path) }
    end

    # The block is true in a child process.
    def assert_child(&)
      child = in_child(&)
      assert_predicate Process.wait2(child).last, :success?
    end

    # @return [Integer] of a child process, in which the block runs
    def in_child
      fork do
        done = yield
      rescue Exception => error # standard:disable Lint/RescueException -- a child must not run the tests' at_exit
        warn error.full_message
      ensure
        exit!(done ? 0 : 1)
      end
    end
  end
end
