# frozen_string_literal: true

require "test_helper"
require "neverblock/server"
require "tempfile"

# Server::Input by itself, with given pieces of a request body.
class ServerInputTest < Minitest::Test
  include NeverBlockTest::Helpers

  # Yields these pieces, one at a time.
  Pieces = Struct.new(:list) do
    def read_some(_max) = list.shift
  end

  # A long line in many pieces: each search for its end continues where the one before it stopped.
  def test_gets_looks_at_each_byte_once
    # Looks.bytes counts the bytes that the searches of Strings may look at.
    looked = assert_ruby(<<~'RUBY')
      require "neverblock/server"
      module Looks
        class << self
          attr_accessor :bytes
        end
        %i[include? index byteindex].each do |name|
          define_method(name) do |what, *from|
            Looks.bytes += bytesize - from.first.to_i
            super(what, *from)
          end
        end
      end
      String.prepend(Looks)
      pieces = Array.new(2_000) { "x" * 10 } << "\nrest"
      request = Struct.new(:pieces) { def read_some(_max) = pieces.shift }.new(pieces)
      input = NeverBlock::Server::Input.new(request)
      Looks.bytes = 0
      line = input.gets
      bytes = Looks.bytes
      abort unless line.bytesize == 20_001 && input.read == "rest"
      print bytes
    RUBY
    assert_includes 20_001...30_000, looked.to_i
  end

  def test_a_separator_across_two_pieces
    input = NeverBlock::Server::Input.new(Pieces.new(["ab\r", "\ncd", "\r", "\n", "e"]))
    assert_equal %W[ab\r\n cd\r\n e], Array.new(3) { input.gets("\r\n") }
    assert_nil input.gets
  end

  # ---- compared with File, which holds a long body ----

  CALLS = {
    read: [[], [0], [3], [1_000], [nil], [-1], [3, "old"], [0, "old"]], readpartial: [[0], [3], [1_000], [-1]], sysread: [[3]], read_nonblock: [[3]],
    gets: [[], [nil], ["b"], [""], ["e\nt"], [4], ["\n", 4], ["\n", 100], [nil, 4], [0], [-1], [{chomp: true}], ["", {chomp: true}]],
    each: [[], ["e"], [5], [{chomp: true}]], each_line: [[], [{chomp: true}]], each_byte: [[]], readlines: [[], [{chomp: true}], ["", 7]], readline: [[], [{chomp: true}]],
    getc: [[]], readchar: [[]], getbyte: [[]], readbyte: [[]], eof?: [[]], eof: [[]], pos: [[]], tell: [[]],
    binmode: [[]], set_encoding: [[Encoding::BINARY]], external_encoding: [[]], internal_encoding: [[]], tty?: [[]], isatty: [[]]
  }.freeze
  AS_THEY_COME = %i[readpartial sysread read_nonblock].freeze # methods that return available bytes
  private_constant :CALLS, :AS_THEY_COME

  ["", "a", "line one\nline two\n\n\n\nmore\n\nend\xFF".b, "\n\n\nab\n\n"].each_with_index do |text, number|
    CALLS.each do |name, argument_lists|
      define_method(:"test_#{name}_of_text_#{number}") do
        argument_lists.each do |arguments|
          kinds = AS_THEY_COME.include?(name) ? 1 : 3
          inputs = Array.new(kinds) { |n| NeverBlock::Server::Input.new(pieces(text, n)) }
          expected, *outcomes = inputs.map { |input| Array.new(4) { outcome(input, name, *arguments) } << input.pos }
          outcomes.each { |outcome| assert_equal expected, outcome, "#{name}(#{arguments.inspect})" }
        end
      end
    end
  end

  def test_bytes_they_are
    [NeverBlock::Server::NO_INPUT, NeverBlock::Server::Input.new(Pieces.new([]))].each do |input|
      assert_equal Encoding::BINARY, input.read.encoding
      assert_equal Encoding::BINARY, input.read(0).encoding
    end
  end

  def test_a_body_that_is_not_there_has_all_that_one_has
    assert_empty NeverBlock::Server::Input.public_instance_methods - NeverBlock::Server::EmptyInput.public_instance_methods
  end

  private

  def file(text)
    Tempfile.create("input", binmode: true).tap do |file|
      File.unlink(file)
      file.write(text)
      file.rewind
    end
  end

  # In one piece, byte by byte, or in pieces of four.
  def pieces(text, kind) = Pieces.new(text.b.scan([/.+/mn, /./mn, /.{1,4}/mn][kind]))

  def outcome(input, name, *arguments)
    options = (Hash === arguments.last) ? arguments.pop : {}
    arguments = arguments.map { |argument| (String === argument) ? +argument : argument }
    value = input.public_send(name, *arguments, **options)
    value = value.to_a if Enumerator === value
    value = :self if value.equal?(input)
    value = [value, arguments.last] if name == :read && arguments.size == 2
    value
  rescue EOFError, ArgumentError => error
    error.class
  end
end
