# frozen_string_literal: true

# A page for each user: stored once for each of them.
class BasketsController < ApplicationController
  before_action { redirect_to new_session_path unless current_user }

  caches_action :show, per: -> { current_user }, expires_in: 1.minute

  def show
    count_call
    render plain: "The basket of #{current_user}, made by call #{ApplicationController.calls["baskets#show"].value}"
  end
end
