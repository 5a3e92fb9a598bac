# frozen_string_literal: true

require "tempfile"
require "uri"

module NeverBlockPumaFuzz
  module Apps
    # Responds as the query says, a word and a value each:
    #
    #   /respond?status=204&field=x-a:1&list=set-cookie:a,b&body=pipe
    #
    # status   an Integer; status_text the same as a String
    # field    a name and a value; list: an Array of values; number: an Integer; none: nil
    # hint     a field of early hints, sent before
    # body     a kind of BODIES
    # length   the content-length
    # read     reads the request's body before
    # raise    raises
    # record   notes, under this name, the close of the body and rack.response_finished; tell responds with the notes
    # hijack   full: responds by itself on the socket; partial: sends the body so
    module Respond
      TEXT = "hello\n"
      NOTES = {} # standard:disable Style/MutableConstant -- of requests that are to be told

      # @return [#each] that has no other method
      EACH = Struct.new(:parts) do
        def each(&) = parts.each(&)

        undef_method :to_a # of Struct
      end

      # An object with a path that isn't one.
      PATHLESS = Struct.new(:to_path) do
        def each = yield(TEXT)

        undef_method :to_a
      end

      BODIES = {
        "array" => -> { [TEXT] },
        "parts" => -> { ["he", "", "llo", "\n"] },
        "empty" => -> { [] },
        "empty_part" => -> { [""] },
        "each" => -> { EACH.new(["he", "", "llo\n"]) },
        "each_nothing" => -> { EACH.new([]) },
        "enumerator" => -> { ["he", "llo\n"].each },
        "large" => -> { ["x" * 300_000] },
        "many" => -> { EACH.new(["y" * 5_000] * 50) },
        "stream" => -> { ->(stream) { stream.write("he", "llo\n") && stream.close } },
        "file" => -> { File.open(__FILE__) },
        "path" => -> { PATHLESS.new(__FILE__) },
        "nil_path" => -> { PATHLESS.new(nil) },
        "pipe" => -> { IO.pipe.then { |reader, writer| writer.write(TEXT) && writer.close || reader } },
        "popen" => -> { IO.popen(["echo", "hello"]) },
        "tempfile" => -> { Tempfile.new.tap { |file| file.write(TEXT) && file.rewind } },
        "unlinked_tempfile" => -> { Tempfile.new.tap { |file| file.write(TEXT) && file.rewind && file.unlink } },
        "unlinked_file" => -> { Tempfile.create.tap { |file| file.write(TEXT) && file.rewind && File.unlink(file.path) } },
        "raising" => -> { Enumerator.new { |parts| parts << "he" && raise("in the body") } },
        "string_io" => -> { StringIO.new("he\nllo\n") }
      }.freeze

      # @return [Array] a Rack response
      def self.call(env)
        words = env["QUERY_STRING"].split("&").map { |word| word.split("=", 2).map { |text| URI.decode_uri_component(text.to_s) } }
        said = words.to_h
        return [200, {}, [NOTES.delete(said["tell"]).to_a.join("\n")]] if said["tell"]
        env["rack.input"].read if said["read"]
        notes = note_end(env, said["record"]) if said["record"]
        raise "as asked" if said["raise"]
        return hijack(env) if said["hijack"] == "full"
        hints = fields(words.filter_map { |name, value| ["field", value] if name == "hint" })
        env["rack.early_hints"].call(hints) if hints.any?
        status = said["status_text"] || Integer(said.fetch("status", "200"))
        body = BODIES.fetch(said.fetch("body", "array")).call
        [status, {"content-type" => "text/plain", **length(said), **fields(words), **partial_hijack(said)}, notes ? noting_close(body, notes) : body]
      end

      def self.note_end(env, name)
        notes = NOTES[name] = []
        env["rack.response_finished"] << ->(_, status, headers, error) { notes << "finished: #{status.inspect}, #{headers.to_h.keys.join(" ")}, #{error.class}" }
        notes
      end

      def self.noting_close(body, notes)
        body.define_singleton_method(:close) do
          notes << "closed"
          super() if defined?(super)
        end
        body
      end

      def self.hijack(env)
        io = env["rack.hijack"].call
        io.write("HTTP/1.1 200 OK\r\nx-request: hijack\r\nconnection: close\r\ncontent-length: 6\r\n\r\n", TEXT)
        io.close
        [-1, {}, []]
      end

      def self.partial_hijack(said)
        return {} unless said["hijack"]
        {"rack.hijack" => lambda { |stream| stream.write(TEXT) && stream.close }}
      end

      def self.length(said) = said["length"] ? {"content-length" => said["length"]} : {}

      def self.fields(words)
        words.filter_map do |kind, text|
          name, value = text.split(":", 2)
          case kind
          when "field" then [name, value]
          when "list" then [name, value.split(",")]
          when "number" then [name, Integer(value)]
          when "none" then [name, nil]
          end
        end.to_h
      end
      private_class_method :note_end, :noting_close, :hijack, :partial_hijack, :length, :fields
    end
  end
end
