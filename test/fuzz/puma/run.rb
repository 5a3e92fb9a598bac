# frozen_string_literal: true

# The command line of the comparison with Puma; `rake fuzz:puma` calls it. Its parts:
#
#   command.rb       the variables, and what is printed
#   generator.rb     a seed becomes a conversation, by the words of vocabulary.rb and recipes.rb
#   conversation.rb  what a client sends on one connection
#   servers.rb       both servers, each in a process of its own, with the apps in apps/
#   client.rb        sends a conversation to a server, and reads all of its answers with answers.rb
#   comparison.rb    two lists of answers become a list of differences
#   known.rb         the differences that are known, each with its reason
#   shrinker.rb      leaves out what a difference does not need
#
#   ruby -Ilib test/fuzz/puma/run.rb
#
# Variables: SECONDS, REQUESTS, SEED, FROM, DROP, ENGINE, SHOW, KNOWN; see CONTRIBUTING.md.
require_relative "command"

exit NeverBlockPumaFuzz::Command.new(ENV).call
