# frozen_string_literal: true

# The server's directives as a page of the documentation:
#
#   rake configuration          # writes docs/configuration.md
desc "Write docs/configuration.md from the directives' definitions"
task configuration: :compile do
  ruby "-Ilib", "script/configuration_page.rb"
end
