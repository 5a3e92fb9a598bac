Rails.application.routes.draw do
  resources :items, only: :index
  get "hello", to: "work#hello"
  get "one", to: "work#one"
  get "sleep", to: "work#sleep"
  get "second", to: "work#second"
  get "cpu", to: "work#cpu"
  get "objects", to: "work#objects"
end
