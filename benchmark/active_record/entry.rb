# frozen_string_literal: true

module Measured
  class Entry < ActiveRecord::Base
  end
end
