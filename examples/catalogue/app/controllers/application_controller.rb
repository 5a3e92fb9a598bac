# frozen_string_literal: true

class ApplicationController < ActionController::Base
  include NeverBlock::ActionCaching

  class << self
    # How often actions have run, by name: the tests count.
    def calls = @@calls ||= Concurrent::Map.new { |map, key| map.compute_if_absent(key) { Concurrent::AtomicFixnum.new } } # standard:disable Style/ClassVars -- one for all controllers
  end

  private

  def count_call = ApplicationController.calls["#{controller_name}##{action_name}"].increment

  def current_user = session[:user]
end
