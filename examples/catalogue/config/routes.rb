# frozen_string_literal: true

Rails.application.routes.draw do
  concern :pages, NeverBlock::Pages::Routes
  resources :products, only: %i[index show edit update], concerns: :pages
  resource :basket, only: :show
  resource :session, only: %i[new create destroy]
  get "report", to: "reports#show"
  get "traffic", to: "reports#traffic"
  root to: redirect("/products")
end
