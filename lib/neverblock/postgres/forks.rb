# frozen_string_literal: true

module NeverBlock
  class Postgres
    # A forked child must not touch its parent's connections, not even by closing them at its end: PostgreSQL would be told to
    # close the parent's.
    #
    #   Forks.watch(multiplexer)     # Multiplexer#disown is called in every child
    #
    # By Process._fork, which Ruby has for this.
    # @api private
    module Forks
      # Prepended to Process' own methods.
      module Hook
        # @return [Integer]
        def _fork = super.tap { |pid| Forks.forked if pid == 0 }
      end

      @watched = ObjectSpace::WeakMap.new

      class << self
        # @param multiplexer [#disown]
        # @return [void]
        def watch(multiplexer)
          Process.singleton_class.prepend(Hook) unless Process.singleton_class.include?(Hook)
          @watched[multiplexer] = true
        end

        # @return [void]
        def forked = @watched.keys.each(&:disown)
      end
    end
  end
end
