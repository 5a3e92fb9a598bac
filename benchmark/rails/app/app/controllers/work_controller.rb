# Actions of known cost.
class WorkController < ApplicationController
  ROUNDS = 1_100_000 # about five milliseconds with YJIT

  def hello = render(plain: "Hello World!")

  def one = render(plain: ActiveRecord::Base.with_connection { |connection| connection.select_value("select 1") })

  def sleep = wait(0.05)

  def second = wait(1)

  def cpu
    sum = 0
    ROUNDS.times { |i| sum = (sum * 31 + i) & 0xffffff }
    render plain: sum.to_s
  end

  def objects = render(plain: GC.stat(:total_allocated_objects).to_s)

  private

  def wait(seconds)
    ActiveRecord::Base.with_connection { |connection| connection.select_value("select pg_sleep(#{seconds})") }
    render plain: "Hello World!"
  end
end
