class Post < ApplicationRecord
  has_many :comments

  scope :newest, -> { order(id: :desc).limit(20) }

  def self.any = find(rand(1..200))
end
