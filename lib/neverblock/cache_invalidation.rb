# frozen_string_literal: true

require "active_support"
require "active_support/concern"
require_relative "cache"

module NeverBlock
  # Removes cached responses when records of a model have changed, after the commit.
  #
  #   class Post < ApplicationRecord
  #     include NeverBlock::CacheInvalidation
  #     purges_cache tags: -> { ["posts", "post-#{id}", "author-#{author_id}"] }
  #     purges_cache urls: -> { ["https://example.org/posts/#{id}"] }, on: %i[update destroy], if: :published_changed?
  #   end
  #
  # All caches of the process are asked ({Cache.purge_tag}, {Cache.purge_url}). What was changed in one transaction is
  # purged after the outermost commit, each tag and URL once, and not at all after a rollback. After an update the tags
  # and URLs of the record before it are purged too: those of an author that has lost a post.
  #
  # A purge that fails is logged and reported to Rails.error. The app's save is not affected.
  #
  # `cache_invalidation/` has the parts:
  #
  #   rule.rb      one `purges_cache`
  #   watch.rb     the callbacks
  #   pending.rb   what is purged after a commit
  module CacheInvalidation
    extend ActiveSupport::Concern

    require_relative "cache_invalidation/rule"
    require_relative "cache_invalidation/pending"
    require_relative "cache_invalidation/watch"

    included do
      unless respond_to?(:current_transaction) && respond_to?(:around_destroy)
        raise ConfigurationError, "NeverBlock::CacheInvalidation is for models of Active Record 7.2 or later, " \
          "and #{inspect[0, 100]} is none"
      end
      class_attribute :neverblock_purges, instance_accessor: false, instance_predicate: false, default: [].freeze
      around_create Watch
      around_update Watch
      around_destroy Watch, prepend: true # before what depends on it is deleted
      after_touch Watch
      after_commit Watch # so that transactions keep the record, for #committed!
    end

    class_methods do
      # Declares what is purged when a record has changed. It can be called several times.
      #
      # A block is evaluated in the record, within the transaction; and after an update also in a copy of the record as
      # it was before. The condition is asked before the change and after it; one true is enough.
      #
      # @param tags [Proc, Symbol, String, Array<String>, nil] tags, a method's name, or a block that returns tags
      # @param urls [Proc, Symbol, String, Array<String>, nil] the same for URLs
      # @param on [Symbol, Array<Symbol>] some of :create, :update, :destroy, :touch; all by default
      # @param conditions [Hash] `if:` and `unless:`, each a method's name, a block, or an Array of them
      # @return [void]
      # @raise [ConfigurationError]
      def purges_cache(tags: nil, urls: nil, on: Rule::EVENTS, **conditions)
        self.neverblock_purges = [*neverblock_purges, Rule.new(tags:, urls:, on:, **conditions)].freeze
      end
    end

    # @api private
    # Active Record calls it for each record of a committed transaction, also if another record's callback has raised.
    def committed!(...)
      super
    ensure
      Pending.flush(self.class)
    end

    # @api private
    # @param model [Class]
    # @yieldreturn [Object]
    # @return [Object, nil] the block's value; nil: it has raised, which is reported
    def self.guarded(model)
      yield
    rescue => error
      ::ActiveRecord::Base.logger&.error("neverblock: after a change of #{model.name || model} the cache was not " \
        "purged as it should be, and may show old responses until their lifetime ends: #{error.message} " \
        "(#{error.class})")
      ActiveSupport.error_reporter&.report(error, handled: true, severity: :error, source: "neverblock",
        context: {model: model.name})
      nil
    end
  end
end
