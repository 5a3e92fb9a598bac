# Which release answers, after a query and what else the test of deployments asks for.
class ReleasesController < ApplicationController
  skip_forgery_protection

  def show
    Note.count
    Kernel.sleep(Float(request.query_string)) if params[:way] == "sleep"
    render plain: RELEASE
  end
end
