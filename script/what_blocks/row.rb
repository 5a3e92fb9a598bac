# frozen_string_literal: true

module WhatBlocks
  # One core call in one situation, and the body that brings it about:
  #
  #   Row.new(group: "Pipes", call: "IO#gets", situation: "empty pipe", kind: :waits, body: proc { ... })
  #
  # kind says what an honest measurement looks like:
  # :waits    the call has to wait Stage::WAIT seconds for something outside;
  # :quick    it has nothing to wait for;
  # :computes it keeps a processor busy, and is therefore measured alone.
  Row = Struct.new(:group, :call, :situation, :kind, :body) do
    # What the row is stored under.
    def key = [call, situation].compact.join(", ")

    def alone? = kind == :computes

    # Whether it is one of NeverBlock's own words.
    def way_out? = call.start_with?("NeverBlock.")
  end
end
