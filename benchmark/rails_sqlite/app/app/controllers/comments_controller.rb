class CommentsController < ApplicationController
  skip_forgery_protection

  # A transaction, a broadcast through Solid Cable and a job for Solid Queue.
  def create
    render json: Post.any.comments.create!(text: "well said")
  end
end
