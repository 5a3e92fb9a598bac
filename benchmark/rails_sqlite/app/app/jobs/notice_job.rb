class NoticeJob < ApplicationJob
  def perform(comment) = comment.touch
end
