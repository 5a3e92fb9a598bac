# frozen_string_literal: true

module Measured
  class Item < ActiveRecord::Base
  end
end
