# frozen_string_literal: true

require "etc"

module NeverBlock
  class Server
    # The number of processors that this process may use. A container often has a share of the machine's.
    #
    #   Processors.count   # => 2
    # @api private
    module Processors
      # Limits of control groups, version 2 and 1: microseconds of processor time per period.
      QUOTA, OLD_QUOTA, OLD_PERIOD = %w[cpu.max cpu/cpu.cfs_quota_us cpu/cpu.cfs_period_us].freeze

      # @param root [String] the mount point of control groups
      # @return [Integer] 1 or more
      def self.count(root: "/sys/fs/cgroup", here: Etc.nprocessors)
        share = quota(root)
        share ? share.ceil.clamp(1, here) : here
      end

      # @return [Float, nil] processors; nil: without a limit
      def self.quota(root)
        time, period = read(root, QUOTA)&.split || [read(root, OLD_QUOTA), read(root, OLD_PERIOD)]
        time, period = [time, period].map { |text| Integer(text.to_s, exception: false) }
        time.to_f / period if time&.positive? && period&.positive?
      end

      def self.read(root, name)
        File.read(File.join(root, name)).strip
      rescue SystemCallError
        nil
      end
      private_class_method :quota, :read
    end
  end
end
