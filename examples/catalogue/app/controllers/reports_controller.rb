# frozen_string_literal: true

class ReportsController < ApplicationController
  # Hundreds that ask at the same time are one query.
  def show
    products, sum = Rails.cache.fetch("summary", expires_in: 1.minute, collapse: true) do
      count_call
      Product.summary
    end
    render plain: "#{products} products for #{sum} cents"
  end

  def traffic = render(plain: Catalogue::TRAFFIC.report.to_s)
end
