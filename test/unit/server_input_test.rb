# frozen_string_literal: true

# engines: one - no engine is involved

require "test_helper"
require "neverblock/server"

# Server::Input by itself: what it makes of the pieces that its request brings.
class ServerInputTest < Minitest::Test
  # Brings these pieces, one at a time.
  Pieces = Struct.new(:list) do
    def read_some(_max) = list.shift
  end

  # A long line in many pieces: each look for its end goes on where the one before it stopped.
  def test_gets_looks_at_each_byte_once
    input = NeverBlock::Server::Input.new(Pieces.new(Array.new(2_000) { "x" * 10 } + ["\nrest"]))
    looked = count_looks(input.instance_variable_get(:@unread))
    assert_equal 20_001, input.gets.bytesize
    assert_operator looked.sum, :<, 30_000
    assert_equal "rest", input.read
  end

  def test_a_separator_across_two_pieces
    input = NeverBlock::Server::Input.new(Pieces.new(["ab\r", "\ncd", "\r", "\n", "e"]))
    assert_equal %W[ab\r\n cd\r\n e], Array.new(3) { input.gets("\r\n") }
    assert_nil input.gets
  end

  private

  # How many bytes each search of this String may look at.
  def count_looks(text)
    [].tap do |looked|
      %i[include? index byteindex].each do |name|
        text.define_singleton_method(name) do |what, from = 0|
          looked << bytesize - from
          (name == :include?) ? super(what) : super(what, from)
        end
      end
    end
  end
end
