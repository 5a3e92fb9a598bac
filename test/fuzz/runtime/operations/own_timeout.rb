# frozen_string_literal: true

module NeverBlockFuzz
  # A timeout with the caller's class: `Timeout.timeout(1, Class.new(OwnTimeout)) { }`. Each timeout makes a class of
  # its own, so that an error shows which timeout has raised it.
  class OwnTimeout < StandardError; end
end
