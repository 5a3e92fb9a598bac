Rails.application.routes.draw do
  resources :notes
  resources :pictures, only: %i[create show]
  mount ActionCable.server => "/cable"
  get "sleep", to: "waits#sleep"
  get "fast", to: "waits#fast"
  get "held", to: "waits#held"
  get "interrupted", to: "waits#interrupted"
  get "timed_out", to: "waits#timed_out"
  get "current", to: "visits#current"
  get "count", to: "visits#count"
  get "fail", to: "visits#failing"
  get "reloaded", to: "visits#reloaded"
  get "endless", to: "visits#endless"
  get "live", to: "live#events"
  get "live/endless", to: "live#endless"
  get "live/failing", to: "live#failing"
  match "release(/:way)", to: "releases#show", via: :all
  get "upgraded", to: ->(_env) { [101, {"connection" => "upgrade", "upgrade" => "echo"}, ->(stream) { stream.write(stream.readpartial(99)) && stream.read }] }
  get "up", to: "rails/health#show"
end
