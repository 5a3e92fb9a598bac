# frozen_string_literal: true

# What the figures were measured on: printed with them, since they mean nothing
# without.
#
#   Bench::Machine.describe["ruby"]      # => "ruby 3.4.5 (2025-07-16 ...) [x86_64-linux]"
require "etc"
require "time"
require_relative "child_process"
require_relative "load_path"

module Bench
  module Machine
    BUSY = 0.3 # of each processor
    MAPS_PER_FIBER = 2 # its stack and the guard page below
    MAPS_BESIDE = 5_000 # of the process itself, with room
    PEERS = %w[async io-event falcon puma iodine agoo itsi rack].freeze

    module_function

    # @return [Hash{String=>String}] in the order to print it
    def describe
      {
        "time" => Time.now.utc.iso8601,
        "processor" => "#{processor}, #{Etc.nprocessors} cores",
        "memory" => "#{proc_value("/proc/meminfo", /^MemTotal:\s+(\d+)/).to_i / 1_048_576} GiB",
        "kernel" => Etc.uname.values_at(:sysname, :release, :machine).join(" "),
        "vm.max_map_count" => max_map_count.to_s,
        "open files" => Process.getrlimit(:NOFILE).first.to_s,
        "load average" => load_average,
        "ruby" => `#{[RbConfig.ruby, *ChildProcess.flags, "-v"].join(" ")}`.strip,
        "neverblock" => neverblock,
        "peers" => LoadPath.versions.slice(*PEERS).map { |pair| pair.join(" ") }.join(", ")
      }
    end

    # @return [Integer] how many memory mappings a process may have; 0 where the kernel does not say
    def max_map_count = proc_value("/proc/sys/vm/max_map_count", /(\d+)/).to_i

    # @param count [Integer]
    # @return [String, nil] why so many parked fibers are left out, nil where they are not
    def too_many_fibers(count)
      wanted = count * MAPS_PER_FIBER + MAPS_BESIDE
      return if wanted <= max_map_count
      "left out, since vm.max_map_count is #{max_map_count} and #{wanted} are needed (two for each fiber). To have it measured: sudo sysctl vm.max_map_count=1048576"
    end

    # Lets this process and those it starts open as many files as the machine's limit
    # for it allows: a thousand requests are two thousand descriptors.
    def raise_open_files
      _, hard = Process.getrlimit(:NOFILE)
      Process.setrlimit(:NOFILE, hard, hard)
    end

    def load_average
      load = proc_value("/proc/loadavg", /\A(\S+)/) or return "unknown"
      (load.to_f > BUSY * Etc.nprocessors) ? "#{load} (other work was running: wall times are of little worth, see processor times)" : load
    end

    def processor = proc_value("/proc/cpuinfo", /^model name\s*: (.*)/) || Etc.uname[:machine]

    def neverblock
      load File.join(LoadPath::ROOT, "lib", "neverblock", "version.rb") unless defined?(::NeverBlock::VERSION)
      revision = `git -C #{LoadPath::ROOT} describe --always --dirty 2>/dev/null`.strip
      [::NeverBlock::VERSION, ("(#{revision})" unless revision.empty?)].compact.join(" ")
    end

    def proc_value(path, pattern) = File.readable?(path) ? File.read(path)[pattern, 1] : nil
  end
end
