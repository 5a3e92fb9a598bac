# frozen_string_literal: true

# A control group, among whose processes the kernel divides what the whole group gets. Both versions of control groups.
#
#   Bench::Crowded::Group.open("server") { |group| group.enter(pid) }
require_relative "../bench/failure"

module Bench
  class Crowded
    class Group
      # Where groups are made: version 1, and 2.
      FOLDERS = %w[/sys/fs/cgroup/cpu /sys/fs/cgroup].freeze
      PATIENCE = 5 # seconds until its last process has left

      # @return [String, nil]
      def self.folder
        FOLDERS.find do |folder|
          controllers = File.join(folder, "cgroup.controllers")
          next false unless File.writable?(folder)
          File.exist?(controllers) ? File.read(File.join(folder, "cgroup.subtree_control")).split.include?("cpu") : File.exist?(File.join(folder, "cpu.shares"))
        end
      end

      # @return [Boolean]
      def self.possible? = !folder.nil?

      # @param name [String]
      # @yieldparam group [Group]
      # @return [Object] the block's value
      def self.open(name)
        group = new(File.join(folder, "neverblock-bench-#{Process.pid}-#{name}"))
        yield group
      ensure
        group&.remove
      end

      # @param path [String]
      def initialize(path)
        @path = path
        Dir.mkdir(path)
      end

      # @param pids [Array<Integer>]
      # @return [void]
      def enter(*pids) = pids.each { |pid| File.write(File.join(@path, "cgroup.procs"), pid.to_s) }

      # @return [void]
      def remove
        deadline = Clock.now + PATIENCE
        begin
          Dir.rmdir(@path)
        rescue Errno::EBUSY
          raise if Clock.now > deadline
          sleep 0.05
          retry
        end
      end
    end
  end
end
