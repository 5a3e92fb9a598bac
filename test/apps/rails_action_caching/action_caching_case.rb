# frozen_string_literal: true

require_relative "app"
require "minitest/autorun"

# What the checks of action caching have in common: an empty store, no calls, and no guard that raises.
class ActionCachingCase < ActionDispatch::IntegrationTest
  def setup
    Rails.cache.clear
    calls.clear
    ApplicationController.steps.clear
    settings.guard = :skip
  end

  private

  def settings = NeverBlock::ActionCaching.settings

  def calls = ApplicationController.calls

  # @return [Array<String>] lines of the log at its lowest level
  def logged
    log = StringIO.new
    Rails.logger.broadcast_to(extra = Logger.new(log))
    yield
    log.string.lines
  ensure
    Rails.logger.stop_broadcasting_to(extra)
  end

  # @return [Array<String>] keys of stored responses
  def stored_keys
    files = Dir[File.join(Rails.cache.cache_path, "**", "*")].select { |file| File.file?(file) }
    files.map { |file| CGI.unescape(File.basename(file)) }.select { |name| name.start_with?("neverblock/action/") }
  end

  # @param path [String] where a user logs in
  # @return [String] the body of the last response
  def logged_in(path, params)
    one = open_session
    one.get(path, params:)
    yield one
    one.body
  end
end
