# Requests that wait, above all in the database.
class WaitsController < ApplicationController
  def sleep
    ActiveRecord::Base.with_connection { |connection| connection.select_value("select pg_sleep(#{Float(params.fetch(:seconds, 1))})") }
    render plain: "slept"
  end

  def fast = render(plain: "fast")

  # Like older apps: the connection is leased until the request ends.
  def held
    ActiveRecord::Base.transaction do
      ActiveRecord::Base.lease_connection.select_value("select 1")
      Kernel.sleep(Float(params[:seconds]))
    end
    render plain: "held"
  end

  # The statement is abandoned, and the connection is used again.
  def interrupted
    process = nil
    ActiveRecord::Base.with_connection do |connection|
      process = connection.select_value("select pg_backend_pid()")
      Timeout.timeout(0.05) { connection.select_value("select pg_sleep(600)") }
    rescue Timeout::Error
      nil
    end
    render plain: ActiveRecord::Base.with_connection { |connection| connection.select_value("select 'an answer of its own'") }
  end

  # A timeout rolls its transaction back; a throw by the app commits.
  def timed_out
    Note.transaction { Timeout.timeout(60) { Note.create!(title: "complete") } }
    catch(:out) { Note.transaction { Note.create!(title: "thrown") && throw(:out) } }
    begin
      Timeout.timeout(0.1) { Note.transaction { Note.create!(title: "half") && Kernel.sleep } }
    rescue Timeout::Error
      nil
    end
    render plain: Note.where(title: %w[complete half thrown]).order(:title).pluck(:title).join(" ")
  end
end
