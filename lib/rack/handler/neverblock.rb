# frozen_string_literal: true

# `rackup -s neverblock` of Rack 2: its launcher looks for this file.
require "rack/handler"
require "neverblock/server/rack_handler"

Rack::Handler.register(:neverblock, NeverBlock::Server::RackHandler)
