# frozen_string_literal: true

module NeverBlock
  module Patches
    # What the running Rails lacks for requests in fibers, supplied by the Railtie: one file each in rails/, listed in
    # docs/patches.md.
    #
    #   NeverBlock::Patches::Rails.apply(except: [:live])
    #
    # A patch answers `needed?`, which tries what is wrong rather than compare versions, and `apply`.
    module Rails
      # @param except [Array<Symbol>] names of those to leave out
      # @return [Array<Symbol>] the names of those that were applied
      # @raise [ConfigurationError] if there is none of a name
      def self.apply(except: [])
        unknown = Array(except).map(&:to_sym) - ALL.keys
        raise ConfigurationError, "config.neverblock.skip_patches: there is no patch #{unknown.first}. There are #{ALL.keys.join(", ")}" if unknown.any?
        needed = ALL.except(*Array(except).map(&:to_sym)).select { |_name, patch| patch.needed? }
        needed.each_value(&:apply)
        Railtie.note("patches for this Rails: #{needed.keys.join(", ")} (docs/patches.md; config.neverblock.skip_patches leaves any of them out)") if needed.any?
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
      # By name. That of the server is no fix: it is applied when the Railtie is loaded.
      ALL = {
        abandoned_statement: AbandonedStatement, hijack_release: HijackRelease, interrupted_query: InterruptedQuery, live: Live,
        share_lock: ShareLock, sqlite_interruption: SqliteInterruption, sqlite_turn: SqliteTurn
      }.freeze
    end
  end
end
