# frozen_string_literal: true

module NeverBlock
  module Patches
    # Fixes and features that the running Rails lacks for requests in fibers. The Railtie applies
    # them; docs/patches.md lists them.
    #
    #   NeverBlock::Patches::Rails.apply(except: [:live])
    #
    # A patch has `needed?`, which tests the behaviour instead of the version, and `apply`.
    # `rails/` has one file per patch:
    #
    #   abandoned_statement.rb   ends an interrupted statement in PostgreSQL
    #   hijack_release.rb        releases the reloading lock of a hijacked request
    #   interrupted_query.rb     verifies a connection after an interrupted statement
    #   live.rb                  runs ActionController::Live in tasks
    #   share_lock.rb            takes the reloading lock per fiber
    #   sqlite_interruption.rb   defers interrupts during a statement of SQLite
    #   sqlite_turn.rb           queues SQLite's transactions
    #   server.rb                makes `bin/rails server` start NeverBlock
    #   pool_wait.rb             reports waits for a connection (config.neverblock.pool_wait)
    #   load_async.rb, pool_size.rb, pool_stat.rb, type_names.rb
    #                            support adapters that share connections; loaded by active_record.rb
    #   connected_to.rb          hands role and shard down to child fibers; loaded by these adapters and shards.rb
    module Rails
      # @param except [Array<Symbol>] names of patches to leave out
      # @return [Array<Symbol>] names of the applied patches
      # @raise [ConfigurationError] for an unknown name
      def self.apply(except: [])
        unknown = Array(except).map(&:to_sym) - ALL.keys
        if unknown.any?
          raise ConfigurationError,
            "config.neverblock.skip_patches: unknown patch #{unknown.first}. Known patches: #{ALL.keys.join(", ")}"
        end
        needed = ALL.except(*Array(except).map(&:to_sym)).select { |_name, patch| patch.needed? }
        needed.each_value(&:apply)
        if needed.any?
          Railtie.note("patches for this Rails: #{needed.keys.join(", ")} " \
            "(docs/patches.md; config.neverblock.skip_patches leaves out any of them)")
        end
        needed.keys
      end
    end
  end
end

require_relative "rails/abandoned_statement"
require_relative "rails/hijack_release"
require_relative "rails/interrupted_query"
require_relative "rails/live"
require_relative "rails/server"
require_relative "rails/share_lock"
require_relative "rails/sqlite_interruption"
require_relative "rails/sqlite_turn"

module NeverBlock
  module Patches
    module Rails
      # Patches by name. The patch of the server is separate: the Railtie applies it when it is loaded.
      ALL = {
        abandoned_statement: AbandonedStatement, hijack_release: HijackRelease, interrupted_query: InterruptedQuery,
        live: Live,
        share_lock: ShareLock, sqlite_interruption: SqliteInterruption, sqlite_turn: SqliteTurn
      }.freeze
    end
  end
end
