# frozen_string_literal: true

# `rackup -s neverblock` of Rack 3: its launcher, the gem rackup, looks for this file.
require "rackup/handler"
require "neverblock/server/rack_handler"

Rackup::Handler.register(:neverblock, NeverBlock::Server::RackHandler)
