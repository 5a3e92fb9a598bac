# frozen_string_literal: true

# The libraries through which a statement is asked for.
#
#   Measured::Layers.named("sequel").open(place, own: true, connections: 8, fibers: true)
module Measured
  module Layers
    ALL = {"raw" => :Raw, "active_record" => :ActiveRecordLayer, "sequel" => :SequelLayer}.freeze

    # @param name [String]
    # @return [Module] what opens it
    def self.named(name)
      require_relative name
      Measured.const_get(ALL.fetch(name))
    end
  end
end
