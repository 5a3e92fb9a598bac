# frozen_string_literal: true

# The server's directives as a page of the documentation:
#
#   rake configuration          # writes docs/configuration.md
desc "Write docs/configuration.md from the directives' definitions"
task configuration: :compile do
  ruby "-Ilib", "script/configuration_page.rb"
end

# What becomes of Puma's directives, as tables:
#
#   rake from_puma              # writes those of docs/from-puma.md
desc "Write the tables of docs/from-puma.md from the reader's rows"
task from_puma: :compile do
  ruby "-Ilib", "script/from_puma_page.rb"
end
