# frozen_string_literal: true

# The reference documentation:
#
#   rake doc            # into doc/; open doc/index.html
desc "Make the reference documentation with YARD"
task :doc do
  system(RbConfig.ruby, Gem.bin_path("yard", "yard"), "doc", exception: true)
end
