# frozen_string_literal: true

require "digest"
require "securerandom"
require "sinatra/base"
require_relative "../meeting"

# The same as a Sinatra app.
class SinatraApp < Sinatra::Base
  enable :sessions
  disable :show_exceptions, :raise_errors, :dump_errors
  set :session_secret, SecureRandom.hex(64)
  set :public_folder, ENV.fetch("PUBLIC")
  set :static, true

  get("/") { "hello from sinatra on Rack #{Rack.release.to_i}" }
  get("/count") { (session[:count] = session[:count].to_i + 1).to_s }
  post("/form") { "you are #{params["name"]}" }
  post("/upload") { params["file"][:tempfile].read.then { |bytes| "#{bytes.bytesize} #{Digest::SHA256.hexdigest(bytes)}" } }
  get("/stream") { stream { |out| 3.times { |number| out << "piece #{number}\n" } } }
  get("/static/:name") { send_file(File.join(settings.public_folder, File.basename(params["name"]))) }
  get("/meet") { Meeting.attend }
  get("/go") { redirect("/") }
  get("/fail") { raise "no" }
  not_found { "there is no #{request.path_info}" }
  error { |error| "sorry: #{error.message}" }
end

run SinatraApp
