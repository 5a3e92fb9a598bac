# frozen_string_literal: true

# The version of the gem, kept apart so that the gemspec can read it without
# loading the native extension:
#
#   NeverBlock::VERSION # => "0.2.0"
#
# 0.1 is that of 2008.
module NeverBlock
  # Semantic version of this gem.
  VERSION = "0.2.0"
end
