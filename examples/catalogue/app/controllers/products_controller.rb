# frozen_string_literal: true

# Public pages. Visitors without a session get them from NeverBlock::Cache, before Rails. Requests of users have a
# cookie, so that they come here: the stored page is the same for all of them, and the browser adds the user's name.
class ProductsController < ApplicationController
  include NeverBlock::Pages

  LIFETIME = 1.minute

  caches_action :index, shared: true, expires_in: LIFETIME, tags: ["products"]
  caches_action :show, shared: true, expires_in: LIFETIME, tags: -> { ["product-#{params[:id]}"] }

  def index
    count_call
    publish("products")
    @products = page_of(Product.order(:name, :id), per: 20)
    respond_to do |format|
      format.html
      format.json { render json: @products.map { |product| product.slice(:id, :name, :price) } }
    end
  end

  def show
    count_call
    @product = Product.find(params[:id])
    publish("product-#{@product.id}")
    fresh_when @product
  end

  # Forms have a token of the user's session: they are not cached.
  def edit = @product = Product.find(params[:id])

  def update
    @product = Product.find(params[:id])
    return redirect_to(@product) if @product.update(params.expect(product: %i[name price]))
    render :edit, status: :unprocessable_content
  end

  private

  # NeverBlock::Cache keeps the page until a purge. Browsers, which no purge reaches, ask each time, and mostly get 304.
  def publish(tag)
    response.headers["cdn-cache-control"] = "max-age=#{LIFETIME.to_i}"
    response.headers["cache-tag"] = tag
  end
end
