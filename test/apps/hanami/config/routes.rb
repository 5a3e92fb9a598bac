# frozen_string_literal: true

module Cafe
  # Paths and their actions.
  class Routes < Hanami::Routes
    root to: ->(_env) { [200, {"content-type" => "text/plain"}, ["hello from hanami on Rack #{Rack.release.to_i}"]] }
    get "/count", to: "count"
    post "/form", to: "form"
    post "/upload", to: "upload"
    get "/stream", to: ->(_env) { [200, {"content-type" => "text/plain"}, Enumerator.new { |out| 3.times { |number| out << "piece #{number}\n" } }] }
    get "/meet", to: ->(_env) { [200, {"content-type" => "text/plain"}, [Meeting.attend]] }
    redirect "/go", to: "/"
    get "/fail", to: "fail"
    get "/*any", to: ->(env) { [404, {"content-type" => "text/plain"}, ["there is no #{env["PATH_INFO"]}"]] }
  end
end
