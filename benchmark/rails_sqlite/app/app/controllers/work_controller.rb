class WorkController < ApplicationController
  skip_forgery_protection

  def hello = render(plain: "Hello World!")

  # From Solid Cache.
  def text = render(plain: Rails.cache.fetch("text #{rand(200)}") { "text " * 400 })

  def count
    Post.increment_counter(:views, rand(1..200))
    head :no_content
  end

  # A transaction that waits for something else with SQLite's lock.
  def held
    Post.transaction { Post.any.increment!(:views) && sleep(0.02) }
    head :no_content
  end
end
