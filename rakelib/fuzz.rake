# frozen_string_literal: true

# Five fuzzers. fuzz:runtime runs random programs of tasks, timeouts, files, processes and so on, each in a process of its own,
# and checks each operation's effect; its code is in test/fuzz/runtime, and CONTRIBUTING.md has its variables:
#
#   rake fuzz:runtime                         # a minute, from a random seed
#   rake fuzz:runtime SEED=7 ENGINE=epoll     # one program again
#
# fuzz:puma sends random requests to Puma and to our server, and compares the answers; its code is in test/fuzz/puma, and
# CONTRIBUTING.md has its variables:
#
#   rake fuzz:puma                            # a minute, from a random seed
#   rake fuzz:puma SEED=7                     # one conversation again
#
# fuzz:threads runs random programs under threads and under fibers, and compares what they do; test/fuzz/threads:
#
#   rake fuzz:threads                         # a minute, from a random seed
#   rake fuzz:threads SEED=7                  # one program again
#
# fuzz:sql runs random programs of SQL on the stock adapter and on ours, and compares what they do; test/fuzz/sql:
#
#   rake fuzz:sql                             # a minute, from a random seed
#   rake fuzz:sql SEED=7                      # one program again
#
# fuzz:http fuzzes the server's parser with sanitizers, for a fixed time; a finding fails the run and leaves its input behind:
#
#   rake fuzz:http                            # 30 seconds
#   rake fuzz:http TIME=600 SEED=7         # longer, from another beginning
#   rake fuzz:http INPUT=tmp/fuzz/finding     # one input alone
#   rake fuzz:http CFLAGS=-U__SSE2__          # without the vector code
#
# Needs gcc or clang with the address and undefined behaviour sanitizers, and nothing else: the fuzzer is
# ext/neverblock/http/protocol/fuzz/driver.c. The top of target.c beside it says how to use libFuzzer.
require "fileutils"
require "rbconfig"
require "shellwords"

# Builds the fuzzer into tmp/fuzz and runs it.
class FuzzRun
  ROOT = File.expand_path("..", __dir__)
  SOURCE = File.join(ROOT, "ext", "neverblock", "http", "protocol")
  FOLDER = File.join(ROOT, "tmp", "fuzz")
  SANITIZERS = %w[-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g -O1].freeze
  WARNINGS = %w[-std=gnu11 -Wall -Wextra -Werror -Wshadow].freeze

  # All of the protocol's files: none of them includes Ruby.
  TARGET = [*Dir["*.c", base: SOURCE].sort.map { |path| path.delete_suffix(".c") }, "fuzz/heads", "fuzz/target"].freeze

  # @param seconds [Integer] how long it runs
  # @param seed [Integer] where its random numbers begin
  # @param inputs [Array<String>] paths of initial inputs
  def initialize(seconds:, seed:, inputs: Dir[File.join(SOURCE, "fuzz", "corpus", "*")].sort)
    @seconds = seconds
    @seed = seed
    @inputs = inputs
  end

  # @return [Boolean] whether nothing was found
  def call
    FileUtils.mkdir_p(FOLDER)
    program = build
    finding = File.join(FOLDER, "finding")
    FileUtils.rm_f(finding) unless @inputs.include?(finding)
    system(program, "-t", @seconds.to_s, "-s", @seed.to_s, "-o", finding, *@inputs)
  end

  private

  def build
    objects = TARGET.map { |name| compile(name, "-fsanitize-coverage=trace-pc") } << compile("fuzz/driver")
    File.join(FOLDER, "http").tap { |program| cc(*objects, "-o", program) }
  end

  def compile(name, *flags)
    object = File.join(FOLDER, "#{name.tr("/", "-")}.o")
    cc(*WARNINGS, *Shellwords.split(ENV.fetch("CFLAGS", "")), *flags, "-c", File.join(SOURCE, "#{name}.c"), "-o", object)
    object
  end

  def cc(*arguments)
    system(*Shellwords.split(ENV.fetch("CC", RbConfig::CONFIG["CC"])), *SANITIZERS, *arguments, exception: true)
  end
end

namespace :fuzz do
  desc "Run random programs of the runtime for SECONDS=60, or one again: SEED=n (ENGINE=, SHRINK=1, PLAN=1: CONTRIBUTING.md)"
  task runtime: :compile do
    ruby "-w", "-Ilib", "test/fuzz/runtime/run.rb"
  end

  desc "Compare the server with Puma for SECONDS=60, or in one conversation again: SEED=n (REQUESTS=, KNOWN=1: CONTRIBUTING.md)"
  task puma: :compile do
    gemfile = File.expand_path("../test/apps/rails/8.1.gemfile", __dir__)
    abort "fuzz:puma needs the gems of Rails: bin/setup installs them" unless File.exist?("#{gemfile}.lock")
    bundle = {"BUNDLE_GEMFILE" => gemfile, "BUNDLE_LOCKFILE" => nil, "BUNDLE_PATH" => File.expand_path("../vendor/bundle", __dir__), "RUBYOPT" => nil, "RUBYLIB" => nil}
    sh(bundle, RbConfig.ruby, "-rbundler/setup", "-Ilib", "test/fuzz/puma/run.rb")
  end

  desc "Compare random programs under threads and under fibers for SECONDS=60, or one again: SEED=n (CONTRIBUTING.md)"
  task threads: :compile do
    ruby "-w", "-Ilib", "test/fuzz/threads/run.rb"
  end

  desc "Compare random programs of SQL on the stock adapter and on ours for SECONDS=60, or one again: SEED=n (CONTRIBUTING.md)"
  task sql: :compile do
    ruby "-w", "-Ilib", "test/fuzz/sql/run.rb"
  end

  desc "Fuzz the HTTP parsers and the chunk decoder for TIME=30 seconds"
  task :http do
    only = ENV["INPUT"]
    seconds = only ? 0 : Integer(ENV.fetch("TIME", "30"))
    run = FuzzRun.new(seconds:, seed: Integer(ENV.fetch("SEED", "1")), **(only ? {inputs: [File.expand_path(only)]} : {}))
    abort "fuzz:http found something" unless run.call
  end
end
