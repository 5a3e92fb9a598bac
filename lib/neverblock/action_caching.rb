# frozen_string_literal: true

require "active_support/concern"
require_relative "errors"
require_relative "flight"
require_relative "cache"
require_relative "action_caching/settings"
require_relative "action_caching/rule"
require_relative "action_caching/hooks"
require_relative "action_caching/store"
require_relative "action_caching/lookup"

module NeverBlock
  # Action caching for controllers of Rails: the filters run first, then a stored response is used without running the
  # action or its views. The browser's validator is that of the stored response, so that any process with the same store
  # can answer 304.
  #
  #   class ReportsController < ApplicationController
  #     include NeverBlock::ActionCaching
  #     before_action :authenticate
  #
  #     caches_action :index                                   # as long as the action's own expires_in says
  #     caches_action :show, expires_in: 5.minutes, tags: -> { ["reports", "report-#{params[:id]}"] }
  #     caches_action :board, expires_in: 60, shared: true     # one page for all users that the filters let in
  #     caches_action :mine, expires_in: 60, per: -> { current_user&.id }
  #   end
  #
  # A page with a part of one user's state raises a {PersonalError} in development, and is not stored in production:
  # {Read} lists what counts. `config.neverblock.action_store` is the store, by default Rails.cache. docs/rails.md has
  # the whole.
  #
  #   rule.rb                       the options of caches_action
  #   lookup.rb                     the way of one request
  #   key.rb, store.rb, tags.rb     under which name, and where entries are
  #   recording.rb, entry.rb        what the action did to the response, and what is stored of that
  #   watch.rb, hooks.rb, *_reads.rb, user_methods.rb, headers.rb    what filters and the action have read of the user
  #   guard.rb, read.rb             what becomes of an action that reads what it must not
  module ActionCaching
    extend ActiveSupport::Concern

    class << self
      # Makes all stored responses with this tag unusable, in all processes with the same store; also those of actions
      # that run now.
      # @param tag [String]
      # @return [nil] how many there are is not known
      # @raise [ArgumentError] if the tag is not a text
      # @raise [StandardError] of the store: the caller has to know that other processes may use old pages
      def purge_tag(tag)
        raise ArgumentError, "purge_tag: #{tag.inspect} is not a String with a tag" unless String === tag && tag != ""
        store&.tags&.purge(tag.downcase)
        nil
      end

      # @api private
      # @return [Settings]
      def settings = @settings ||= Settings.from_app

      # @api private
      # @return [Store, nil] nil: the app has no cache, or this process has no Rails app
      def store
        return unless defined?(::Rails.application) && ::Rails.application
        cache = settings.store || ::Rails.cache or return
        @store = Store.new(cache) unless @store&.of?(cache)
        @store
      end
    end

    Cache.register(self)

    included do
      unless self < AbstractController::Callbacks && self < ActionController::ConditionalGet
        raise ConfigurationError, "NeverBlock::ActionCaching: #{self} is not a controller. Include the module in " \
          "the class of one"
      end
      Hooks.install(flash: self < ActionController::Flash)
      class_attribute :neverblock_cached_actions, instance_accessor: false, instance_predicate: false,
        default: {}.freeze
    end

    class_methods do
      # @param names [Array<Symbol, String>] actions
      # @param expires_in [Numeric, ActiveSupport::Duration, nil] seconds that the store keeps a response; nil: what the
      #   action declares by `expires_in`. Without either, nothing is stored
      # @param shared [Boolean] whether one response is for all users: neither action nor view may use the user's state
      # @param per [Proc, Symbol, nil] evaluated in the controller after the filters: whose response this is; nil as the
      #   value: this request is not cached
      # @param vary [Proc, Symbol, nil] evaluated in the controller: what else the response depends on, such as the
      #   locale
      # @param tags [Proc, Symbol, Array<String>, nil] by which responses can be purged: {ActionCaching.purge_tag}
      # @param if [Proc, Symbol, Array, nil] evaluated in the controller after the filters; false: this request is not
      #   cached, and the guard does not look at it. `unless:` is the opposite
      # @return [void]
      # @raise [ConfigurationError]
      def caches_action(*names, **options)
        raise ConfigurationError, "caches_action names no action. Name one, as in caches_action :show" if names.empty?
        rule = Rule.new(**options)
        self.neverblock_cached_actions =
          neverblock_cached_actions.merge(names.to_h { |name| [name.to_s, rule] }).freeze
      end
    end

    # Has the ETag and the Last-Modified that are stored. The response is rendered if it will be stored, whatever the
    # browser has.
    # @return [Object] as in Rails
    def fresh_when(...)
      Watch.of(self)&.defer_conditions
      super
    end

    private

    # Rails' filters see the whole of `process_action`.
    def process_action(...)
      rule = self.class.neverblock_cached_actions[action_name]
      return super if rule.nil? || Watch.current&.acting? # what an action within another one reads is read by both
      return super unless Lookup.possible?(self)
      Watch.open(self, rule) { super }
    end

    # Called after the filters of before and around.
    def send_action(...)
      watch = Watch.of(self)
      watch ? Lookup.new(self, watch).call { super } : super
    end
  end
end
