# Which release answers, after a query and what else the tests of operation ask for.
class ReleasesController < ApplicationController
  skip_forgery_protection

  def show
    Note.count
    Kernel.sleep(Float(request.query_string)) if params[:way] == "sleep"
    2.times { GC.start } if params[:way] == "collect"
    render plain: RELEASE
  end
end
