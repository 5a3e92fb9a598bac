# frozen_string_literal: true

require "digest"
require "roda"
require "securerandom"
require_relative "../meeting"

# A Roda app with common features. PUBLIC in the environment is its folder of static files.
class RodaApp < Roda
  plugin :sessions, secret: SecureRandom.hex(64), key: "roda"
  plugin :public, root: ENV.fetch("PUBLIC")
  plugin :head
  plugin :streaming
  plugin(:error_handler) { |error| "sorry: #{error.message}" }
  plugin(:not_found) { "there is no #{request.path}" }

  route do |r|
    r.on("static") { r.public }
    r.root { "hello from roda on Rack #{Rack.release.to_i}" }
    r.get("count") { (session["count"] = session["count"].to_i + 1).to_s }
    r.post("form") { "you are #{r.params["name"]}" }
    r.post("upload") { r.params["file"][:tempfile].read.then { |bytes| "#{bytes.bytesize} #{Digest::SHA256.hexdigest(bytes)}" } }
    r.get("stream") { stream { |out| 3.times { |number| out << "piece #{number}\n" } } }
    r.get("meet") { Meeting.attend }
    r.get("go") { r.redirect("/") }
    r.get("fail") { raise "no" }
  end
end

run RodaApp.freeze.app
