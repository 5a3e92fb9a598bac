class Picture < ApplicationRecord
  has_one_attached :file
end
