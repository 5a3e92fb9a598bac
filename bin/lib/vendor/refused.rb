# frozen_string_literal: true

module Vendor
  # Why bin/vendor does nothing. The first line of the message is the reason, the others are remedies.
  Refused = Class.new(StandardError)
end
