Rails.application.routes.draw do
  resources :posts, only: :index
  resources :comments, only: :create
  get "hello", to: "work#hello"
  get "text", to: "work#text"
  post "count", to: "work#count"
  post "held", to: "work#held"
end
