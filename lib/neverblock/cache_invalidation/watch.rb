# frozen_string_literal: true

module NeverBlock
  module CacheInvalidation
    # The callbacks of models: finds out what a change makes stale.
    # @api private
    module Watch
      class << self
        # The methods that Active Record calls.

        def around_create(record, &) = around(record, :create, &)

        def around_update(record, &) = around(record, :update, &)

        # What the tags depend on may be deleted with the record.
        def around_destroy(record, &)
          rules = rules(record, :destroy)
          changed = rules.any? && record.attributes_in_database
          states = [record, (before(record, changed) if changed.present?)].compact
          found = rules.flat_map { |rule| met?(rule, record) ? items(rule, states) : [] }
          yield
          Pending.add(record.class, found)
        end

        def after_touch(record)
          rules = rules(record, :touch).select { |rule| met?(rule, record) }
          Pending.add(record.class, rules.flat_map { |rule| items(rule, [record]) })
        end

        def after_commit(_record) = nil

        private

        # The condition may be about what is going to change (`title_changed?`) or about what has
        # (`saved_change_to_title?`). One purge too many does no harm.
        def around(record, event)
          rules = rules(record, event).to_h { |rule| [rule, met?(rule, record)] }
          yield
          rules = rules.select { |rule, met| met || met?(rule, record) }.keys
          return if rules.empty?
          changed = (event == :update) ? record.saved_changes.transform_values(&:first) : {}
          states = [record, (before(record, changed) unless changed.empty?)].compact
          Pending.add(record.class, rules.flat_map { |rule| items(rule, states) })
        end

        def rules(record, event) = record.class.neverblock_purges.select { |rule| rule.on?(event) }

        # A condition that raises is not known to be false.
        def met?(rule, record)
          answer = CacheInvalidation.guarded(record.class) { rule.met?(record) ? :yes : :no }
          answer != :no
        end

        # @return [ActiveRecord::Base, nil] the record as it was
        def before(record, changed)
          CacheInvalidation.guarded(record.class) do
            old = changed.to_h { |name, value| [name, record.class.type_for_attribute(name).serialize(value)] }
            record.class.instantiate(record.attributes_for_database.merge(old))
          end
        end

        def items(rule, states)
          states.flat_map do |state|
            found = CacheInvalidation.guarded(state.class) { rule.items(state) } || []
            found.uniq.select { |kind, text| CacheInvalidation.guarded(state.class) { valid(kind, text) } }
          end
        end

        def valid(kind, text) = (kind == :tag) ? Cache.tag_of(text) : Cache.parts_of(text)
      end
    end
  end
end
