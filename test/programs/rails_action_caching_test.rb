# frozen_string_literal: true

# slow: it starts Rails

require "test_helper"
require "support/rails_checks"

# Action caching, with the gems of a Rails app. bin/test --long does it with every supported Rails.
class RailsActionCachingTest < Minitest::Test
  include NeverBlockTest::RailsChecks

  def test_action_caching = check("rails_action_caching")
end
