class Comment < ApplicationRecord
  belongs_to :post, touch: true
  broadcasts_to :post
  after_create_commit { NoticeJob.perform_later(self) }
end
