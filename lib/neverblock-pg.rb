# frozen_string_literal: true

# What programs of 2008 require: the pools by their names of then.
require_relative "neverblock"
require_relative "neverblock/pool"
