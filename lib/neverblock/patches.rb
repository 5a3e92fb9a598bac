# frozen_string_literal: true

require "socket"
require "zlib"

module NeverBlock
  # The few calls for which Ruby asks no scheduler are made to ask ours, by modules
  # prepended to Ruby's classes: one file each in patches/, listed in docs/patches.md
  # with what it waits for.
  #
  #   NeverBlock::Patches.apply     # NeverBlock.run does, unless patches: false
  #
  # Each method first asks whether the running fiber is in a loop of ours. If not, it
  # goes on to Ruby's own method, so that the rest of the process sees no change.
  #
  # A patch module answers `targets`, {class => module to prepend}, and `needed?`,
  # whether this Ruby is one of those that need it.
  module Patches
    # Prepends what this Ruby needs. Doing it again does nothing, in any Ractor. An app that freezes Ruby's classes needs it
    # before that: `neverblock serve` and `bin/rails server` do so before they load the app.
    # @return [void]
    # @raise [ConfigurationError] if a class is frozen
    def self.apply
      return if applied?
      Scheduler.in_turn do
        TARGETS.each do |target, patch|
          next if target < patch
          refuse(target) if target.frozen?
          target.prepend(patch)
        end
      end
    end

    # @return [Boolean] whether this Ruby has all that it needs
    def self.applied? = TARGETS.all? { |target, patch| target < patch }

    # @return [Array<Module>] those which this Ruby needs
    def self.needed = ALL.select(&:needed?)

    def self.refuse(target)
      raise ConfigurationError, "#{target.inspect} is frozen, and can't be patched any more (docs/patches.md). " \
        "Call NeverBlock::Patches.apply before the program freezes it; neverblock serve does"
    end
    private_class_method :refuse
  end
end

require_relative "patches/close"
require_relative "patches/copy_stream"
require_relative "patches/daemon"
require_relative "patches/flock"
require_relative "patches/fork"
require_relative "patches/fsync"
require_relative "patches/getaddrinfo"
require_relative "patches/getnameinfo"
require_relative "patches/handle_interrupt"
require_relative "patches/open"
require_relative "patches/pwrite"
require_relative "patches/tcp_socket"
require_relative "patches/timed_wait"
require_relative "patches/zlib"

module NeverBlock
  module Patches
    ALL = [Close, CopyStream, Daemon, Flock, Fork, Fsync, Getaddrinfo, Getnameinfo, HandleInterrupt, Open, Pwrite,
      TCPSocket, TimedWait, Zlib].freeze
    # Shareable between Ractors, as classes and modules are.
    TARGETS = needed.flat_map { |patch| patch.targets.to_a.map(&:freeze) }.freeze
    private_constant :ALL, :TARGETS
  end
end
