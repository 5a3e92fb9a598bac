# frozen_string_literal: true

# A program of ours in C, compiled where that is needed.
#
#   Bench::CProgram.path("benchmark/servers/load.c")      # => ".../tmp/bench/load"
require "fileutils"
require "rbconfig"
require_relative "failure"
require_relative "load_path"

module Bench
  module CProgram
    FOLDER = File.join(LoadPath::ROOT, "tmp", "bench")

    # @param source [String] headers beside it count as parts of it
    # @return [String] the program's path
    # @raise [Failure] if it cannot be compiled
    def self.path(source)
      program = File.join(FOLDER, File.basename(source, ".c"))
      parts = [source, *Dir[File.join(File.dirname(source), "*.h")]]
      return program if File.exist?(program) && parts.all? { |part| File.mtime(program) > File.mtime(part) }
      raise Failure, "#{File.basename(source)} needs Linux: it is written on epoll." unless RUBY_PLATFORM.include?("linux")
      FileUtils.mkdir_p(FOLDER)
      system(RbConfig::CONFIG["CC"].split.first, "-O2", "-std=gnu11", "-Wall", "-o", program, source) or
        raise Failure, "#{File.basename(source)} could not be compiled: the compiler's message is above."
      program
    end
  end
end
