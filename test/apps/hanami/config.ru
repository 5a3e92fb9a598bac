# frozen_string_literal: true

Dir.chdir(__dir__) # Hanami looks for its app here
require "hanami/boot"

run Hanami.app
