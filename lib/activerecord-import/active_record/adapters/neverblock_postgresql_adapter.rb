# frozen_string_literal: true

# For activerecord-import, which requires a file by the name of the adapter: what it has for Rails' own is right for
# ours, whose superclass that is.
#
#   Item.import(items, on_duplicate_key_update: [:price])     # one INSERT
require "activerecord-import/active_record/adapters/postgresql_adapter"
