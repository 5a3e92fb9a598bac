# frozen_string_literal: true

# slow: it starts Rails

require "test_helper"
require "support/rails_checks"

# Pages in the path, with the gems of a Rails app. bin/test --long does it with every supported Rails.
class RailsPagesTest < Minitest::Test
  include NeverBlockTest::RailsChecks

  def test_pages_in_the_path = check("rails_pages")
end
