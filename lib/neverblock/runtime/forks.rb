# frozen_string_literal: true

module NeverBlock
  # Takes the parent's connections away from forked children. Closing one there would end the parent's session.
  #
  #   Forks.watch(multiplexer)     # Multiplexer#disown is called in every child
  #
  # It hooks into Process._fork, which Ruby provides for this.
  # @api private
  module Forks
    # Prepended to the singleton class of Process.
    module Hook
      # @return [Integer]
      def _fork = super.tap { |pid| Forks.forked if pid == 0 }
    end

    @watched = ObjectSpace::WeakMap.new

    class << self
      # @param owner [#disown] of connections
      # @return [void]
      def watch(owner)
        Process.singleton_class.prepend(Hook) unless Process.singleton_class.include?(Hook)
        @watched[owner] = true
      end

      # @return [void]
      def forked = @watched.keys.each(&:disown)
    end
  end
end
