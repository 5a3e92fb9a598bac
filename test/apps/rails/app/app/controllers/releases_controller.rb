# Responds with the release's name, after a query and other steps of the tests of operation.
class ReleasesController < ApplicationController
  skip_forgery_protection

  def show
    Note.count
    Kernel.sleep(Float(request.query_string)) if params[:way] == "sleep"
    2.times { GC.start } if params[:way] == "collect"
    render plain: RELEASE
  end
end
