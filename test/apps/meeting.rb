# frozen_string_literal: true

# Where two requests meet: the first one waits for the second, which it can only do beside it.
#
#   Meeting.attend   # => "met", or "alone" where nobody came
module Meeting
  @chairs = Thread::Queue.new
  @count = 0

  def self.attend
    @count += 1
    return "met" if @count.even? && @chairs << true
    @chairs.pop(timeout: 10) ? "met" : "alone"
  end
end
