# frozen_string_literal: true

module NeverBlockTest
  # Rows of pipes and sockets, which share their fates. `ends` is the method that gives a reader and a writer:
  #
  #   single_read_row "`IO#readpartial`, `IO#sysread` of a pipe", :pipe, ->(io) { io.readpartial(10) }, ->(io) { io.sysread(10) }
  module Effects
    # More bytes than any pipe or socket takes.
    FLOOD = ("x" * 4_000_000).freeze

    # Streams for the rows below.
    module Streams
      # Fills the buffer to the last byte.
      def fill(writer)
        [50_000, 1].each { |size| nil until writer.write_nonblock(FLOOD[0, size], exception: false) == :wait_writable }
      end

      # After an interrupted write a part has arrived; the rest is never sent, and the next write follows that part.
      def check_cut_off(reader, finish)
        sent = drained(reader)
        others_first
        assert_bytes "x" * sent.bytesize, sent
        assert_operator sent.bytesize, :<, FLOOD.bytesize
        finish.call
        assert_equal "end", drained(reader)
      end
    end
    Cell.include Streams

    class << self
      private

      def reading_row(name, ends, *calls)
        row name, :withdrawn, calls: do |act|
          reader, writer = send(ends)
          writer << "abc"
          operation(:io) { act.call(reader) }
          under_way { !reader.wait_readable(0) }
          check do
            writer << "def\n"
            others_first
            assert_equal "def\n", reader.gets, "the bytes that had been read are gone, as they are with threads"
          end
        end
      end

      def single_read_row(name, ends, *calls)
        row name, :withdrawn, calls: do |act|
          reader, writer = send(ends)
          operation(:io) { act.call(reader) }
          check do
            writer << "abc"
            others_first
            assert_equal "abc", Array(act.call(reader)).first
          end
        end
      end

      def writing_row(name, ends)
        row name, :withdrawn do
          reader, writer = send(ends)
          operation(:io) { writer.write(FLOOD) }
          check { check_cut_off(reader, -> { writer.write("end") }) }
        end
      end

      def single_write_row(name, ends, *calls)
        row name, :withdrawn, calls: do |act|
          reader, writer = send(ends)
          fill(writer)
          operation(:io) { act.call(writer, "y") }
          check do
            assert_equal "", drained(reader).delete("x")
            others_first
            assert_equal "", drained(reader)
            assert_equal 1, act.call(writer, "y")
            assert_equal "y", drained(reader)
          end
        end
      end
    end

    READING = [->(io) { io.read(10) }, :gets.to_proc, :readlines.to_proc, ->(io) { io.each_line { |line| raise "a line: #{line}" } }].freeze
  end
end
