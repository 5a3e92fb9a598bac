# frozen_string_literal: true

require "socket"
require "zlib"

module NeverBlock
  # Modules that are prepended to Ruby's classes, for the few calls for which Ruby has no scheduler hook.
  # docs/patches.md lists each patch with the Ruby bug or release that it waits for.
  #
  #   NeverBlock::Patches.apply     # NeverBlock.run does, unless patches: false
  #
  # Each method first checks whether the running fiber is in one of our loops. Elsewhere it calls Ruby's own method, so
  # the rest of the process is unchanged.
  #
  # A patch module has `targets`, a Hash of {class => module to prepend}, and `needed?`, whether this Ruby needs the
  # patch. `patches/` has one file per patch:
  #
  #   chdir.rb              Dir.chdir: refused during another task's block
  #   close.rb              IO#close, close_read, reopen …: wake the fibers that wait for the descriptor
  #   copy_stream.rb        IO.copy_stream between descriptors that wait
  #   daemon.rb             Process.daemon: refused beside live tasks
  #   flock.rb              File#flock
  #   fork.rb               Process._fork: releases the parent's fibers
  #   fsync.rb              IO#fsync, IO#fdatasync
  #   getaddrinfo.rb        services by name, addresses with an interface
  #   getnameinfo.rb        names of addresses
  #   handle_interrupt.rb   masks of Thread.handle_interrupt, per task
  #   isolation.rb          Active Support's state by fiber, wherever it is loaded
  #   open.rb               File.open of regular files
  #   pwrite.rb             IO#pwrite
  #   tcp_socket.rb         TCPSocket.new by name
  #   timed_wait.rb         Mutex#sleep and ConditionVariable#wait with a limit
  #   zlib.rb               Zlib, by the size of its input
  #   rails.rb, rails/      patches of Rails, applied by the Railtie
  module Patches
    # Prepends the patches that this Ruby needs. Repeated calls have no effect, in any Ractor. An app that freezes
    # Ruby's classes must call it before; `neverblock serve` and `bin/rails server` do so before they load the app.
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

    # @return [Boolean] whether all needed patches are applied
    def self.applied? = TARGETS.all? { |target, patch| target < patch }

    # @return [Array<Module>] the patches that this Ruby needs
    def self.needed = ALL.select(&:needed?)

    # @api private
    # @return [Boolean] whether core would open it: false for an IO, a descriptor, and what core refuses
    def self.path?(one) = ::String === one || (one.respond_to?(:to_path) && !(::IO === one))

    def self.refuse(target)
      raise ConfigurationError, "can't patch #{target.inspect}: it is frozen (docs/patches.md). Call " \
        "NeverBlock::Patches.apply before the program freezes it, as neverblock serve does"
    end
    private_class_method :refuse
  end
end

require_relative "patches/chdir"
require_relative "patches/close"
require_relative "patches/copy_stream"
require_relative "patches/daemon"
require_relative "patches/flock"
require_relative "patches/fork"
require_relative "patches/fsync"
require_relative "patches/getaddrinfo"
require_relative "patches/getnameinfo"
require_relative "patches/handle_interrupt"
require_relative "patches/isolation"
require_relative "patches/open"
require_relative "patches/pwrite"
require_relative "patches/tcp_socket"
require_relative "patches/timed_wait"
require_relative "patches/zlib"

module NeverBlock
  module Patches
    ALL = [Chdir, Close, CopyStream, Daemon, Flock, Fork, Fsync, Getaddrinfo, Getnameinfo, HandleInterrupt, Isolation,
      Open, Pwrite, TCPSocket, TimedWait, Zlib].freeze
    # Shareable between Ractors, because classes and modules are.
    TARGETS = needed.flat_map { |patch| patch.targets.to_a.map(&:freeze) }.freeze
    private_constant :ALL, :TARGETS
  end
end
