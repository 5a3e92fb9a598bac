# frozen_string_literal: true

# As the others have it.
early_hints false
