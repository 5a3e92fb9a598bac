# frozen_string_literal: true

module NeverBlock
  module ActionCaching
    # How the app is set up: `config.neverblock`.
    #
    #   config.neverblock.action_store = ActiveSupport::Cache::RedisCacheStore.new      # default: Rails.cache
    #   config.neverblock.action_caching_guard = :skip                # default: :raise in development and test
    #   config.neverblock.action_caching_personal = %i[current_member]     # further methods that give the user
    # @api private
    Settings = Struct.new(:store, :guard, :revision, :personal, :log, :clean) do
      # Methods of controllers that give the user.
      personal = %i[
        current_user current_account current_member current_admin current_session true_user user_signed_in? signed_in?
        logged_in? authenticated? warden
      ].freeze

      # @return [Settings]
      # @raise [ConfigurationError]
      define_singleton_method(:from_app) do
        config = ::Rails.application.config.neverblock
        guard = config.action_caching_guard || (::Rails.env.local? ? :raise : :skip)
        unless guard == :raise || guard == :skip
          raise ConfigurationError,
            "config.neverblock.action_caching_guard is #{guard.inspect}. It must be :raise or :skip"
        end
        new(config.action_store, guard, config.revision || nil, personal | Array(config.action_caching_personal),
          ->(line) { ::Rails.logger&.warn("neverblock: #{line}") },
          ->(lines) { ::Rails.backtrace_cleaner.clean(lines) })
      end
    end
  end
end
