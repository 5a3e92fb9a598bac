# State of one visitor that no other may see, and failures.
class VisitsController < ApplicationController
  def current
    Current.visitor = params[:name]
    Thread.current[:visitor] = params[:name]
    Kernel.sleep(0.05)
    render plain: [Current.visitor, Thread.current[:visitor]].join(" ")
  end

  def count
    session[:count] = session[:count].to_i + 1
    render plain: session[:count]
  end

  def failing = raise("no")

  def reloaded
    before = Motto
    Kernel.sleep(Float(params.fetch(:seconds, 0)))
    render plain: [Motto::TEXT, (before.equal?(Motto) && before.equal?(Object.const_get(:Motto))) ? "same" : "torn"].join(" ")
  end

  # A body that goes on until its client leaves.
  def endless
    response.headers["Last-Modified"] = Time.now.httpdate # otherwise Rack::ETag of Rails 7.2 buffers it
    self.response_body = Enumerator.new do |lines|
      loop do
        lines << "#{Motto::TEXT}\n"
        Kernel.sleep(0.02)
      end
    end
  end
end
