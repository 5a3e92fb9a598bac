class Note < ApplicationRecord
  attribute :details, :jsonb # found by the name of the adapter
  validates :title, presence: true
  after_create_commit -> { broadcast_append_to "notes" }
end
