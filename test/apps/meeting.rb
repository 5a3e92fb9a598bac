# frozen_string_literal: true

# Two requests meet: the first one waits for the second, so both must run at the same time.
#
#   Meeting.attend   # => "met", or "alone" if no other request came
module Meeting
  @chairs = Thread::Queue.new
  @count = 0

  def self.attend
    @count += 1
    return "met" if @count.even? && @chairs << true
    @chairs.pop(timeout: 10) ? "met" : "alone"
  end
end
