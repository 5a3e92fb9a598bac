# frozen_string_literal: true

# The server's directives as a page of the documentation:
#
#   rake configuration          # writes docs/configuration.md
desc "Write docs/configuration.md from the directives' definitions"
task configuration: :compile do
  ruby "-Ilib", "script/configuration_page.rb"
end

# The options of PostgreSQL as a table of the documentation:
#
#   rake postgres_options       # writes that of docs/postgres.md
desc "Write the table of options in docs/postgres.md from the options' definitions"
task postgres_options: :compile do
  ruby "-Ilib", "script/postgres_options_page.rb"
end

# The effects of Puma's directives, as tables:
#
#   rake from_puma              # writes those of docs/from-puma.md
desc "Write the tables of docs/from-puma.md from the reader's rows"
task from_puma: :compile do
  ruby "-Ilib", "script/from_puma_page.rb"
end
