# frozen_string_literal: true

# The table of core calls and what they do to the loop:
#
#   rake what_blocks          # measures this Ruby, rewrites its columns in docs/what-blocks.md
#   rake what_blocks:check    # measures, and fails where the document is wrong
desc "Measure what blocks on this Ruby and write docs/what-blocks.md"
task what_blocks: :compile do
  ruby "script/what_blocks.rb"
end

namespace :what_blocks do
  desc "Measure what blocks and compare with docs/what-blocks.md"
  task check: :compile do
    ruby "script/what_blocks.rb", "--check"
  end
end
