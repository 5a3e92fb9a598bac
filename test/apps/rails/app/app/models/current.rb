class Current < ActiveSupport::CurrentAttributes
  attribute :visitor
end
