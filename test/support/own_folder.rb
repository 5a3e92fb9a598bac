# frozen_string_literal: true

require "fileutils"
require "tmpdir"

module NeverBlockTest
  # Each test runs in an empty folder of its own, @folder, which is removed afterwards.
  module OwnFolder
    def setup
      super
      @folder = File.realpath(Dir.mktmpdir("nb"))
      @back = Dir.pwd
      Dir.chdir(@folder)
    end

    def teardown
      Dir.chdir(@back)
      FileUtils.rm_rf(@folder)
      super
    end
  end
end
