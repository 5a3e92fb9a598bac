class LiveController < ApplicationController
  include ActionController::Live

  def events
    Current.visitor ||= params[:name]
    response.headers["Content-Type"] = "text/event-stream"
    response.headers["Last-Modified"] = Time.now.httpdate
    stream = SSE.new(response.stream)
    3.times do |number|
      stream.write({number:, visitor: Current.visitor, fiber: !Fiber.current.blocking?, count: ActiveRecord::Base.with_connection { |c| c.select_value("select #{number}") }})
      Kernel.sleep(0.02)
    end
  ensure
    response.stream.close
  end

  def endless
    response.headers["Last-Modified"] = Time.now.httpdate
    loop do
      response.stream.write("#{Motto::TEXT}\n")
      Kernel.sleep(0.02)
    end
  rescue ActionController::Live::ClientDisconnected
    Rails.logger.info("the client of a live stream has left")
  ensure
    response.stream.close
  end

  def failing
    response.headers["Last-Modified"] = Time.now.httpdate
    response.stream.write("begun\n")
    raise "amid a stream"
  ensure
    response.stream.close
  end

  before_action { Current.visitor = params[:name] }
end
