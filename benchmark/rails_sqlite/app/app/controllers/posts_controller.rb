class PostsController < ApplicationController
  # GET /posts or /posts.json
  def index
    @posts = Post.newest
    respond_to do |format|
      format.html
      format.json { render json: @posts }
    end
  end
end
