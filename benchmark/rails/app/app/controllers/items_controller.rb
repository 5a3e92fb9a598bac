class ItemsController < ApplicationController
  # GET /items or /items.json
  def index
    @items = Item.order(:id)
  end
end
