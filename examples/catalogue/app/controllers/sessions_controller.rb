# frozen_string_literal: true

# A login without a password, since this is an example.
class SessionsController < ApplicationController
  def create
    session[:user] = params.expect(:name)
    cookies[:name] = {value: params[:name], httponly: false} # for public/personal.js
    redirect_to products_path
  end

  def destroy
    reset_session
    cookies.delete(:name)
    redirect_to products_path
  end
end
