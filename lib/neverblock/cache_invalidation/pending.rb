# frozen_string_literal: true

module NeverBlock
  module CacheInvalidation
    # What is to be purged after the commits of open transactions: a set for each transaction and savepoint, kept by
    # their connection. A savepoint that is rolled back takes its set away; the outermost commit purges all others.
    #
    #   Pending.add(Post, [[:tag, "posts"]])    # at once, if no transaction is open
    # @api private
    module Pending
      KEPT_AS = :@neverblock_purges
      private_constant :KEPT_AS

      class << self
        # @param model [Class]
        # @param items [Array<Array(Symbol, String)>]
        # @return [void]
        def add(model, items)
          return if items.empty?
          transaction = model.current_transaction
          return purge(model, items) if transaction.closed?
          connection = model.connection_pool.active_connection?
          set_of(model, connection, transaction).merge(items)
        end

        # After the outermost commit: of this connection no transaction is open.
        # @param model [Class]
        # @return [void]
        def flush(model)
          connection = model.connection_pool.active_connection?
          committed(model, connection, nil) if connection
        end

        private

        def set_of(model, connection, transaction)
          sets = sets_of(connection) || connection.instance_variable_set(KEPT_AS, {}.compare_by_identity)
          sets[transaction] ||= begin
            transaction.after_commit { committed(model, connection, transaction) }
            transaction.after_rollback { sets_of(connection)&.delete(transaction) }
            Set.new
          end
        end

        # A transaction may be within one that is not the app's, such as a test's: that one's end is not waited for, and
        # each set is purged by itself.
        def committed(model, connection, transaction)
          sets = sets_of(connection) or return
          return purge(model, sets.delete(transaction)) if connection.open_transactions.positive?
          connection.instance_variable_set(KEPT_AS, nil)
          purge(model, sets.each_value.reduce(Set.new, :merge))
        end

        def sets_of(connection) = connection.instance_variable_get(KEPT_AS)

        def purge(model, items)
          return if items.nil?
          tags, urls = items.partition { |kind, _| kind == :tag }.map { |list| list.map(&:last) }
          CacheInvalidation.guarded(model) { Cache.purge_tag(*tags) } unless tags.empty?
          CacheInvalidation.guarded(model) { Cache.purge_url(*urls) } unless urls.empty?
        end
      end
    end
  end
end
