# frozen_string_literal: true

require "json"
require_relative "log_fields"

module NeverBlock
  class Cache
    class Traffic
      # A line with a JSON object: NeverBlock's own access log, nginx with `escape=json`, Caddy, lograge. Text before
      # the object is not read.
      #
      #   JSONLine.parse('{"method":"GET","path":"/a","status":200}', LogTime.new)
      # @api private
      module JSONLine
        # Keys with the line of a program that a container has written.
        WRAPPED = %w[log message msg].freeze
        # Levels of an object: Caddy has three.
        DEEPEST = 8
        private_constant :WRAPPED, :DEEPEST

        class << self
          # @param line [String] binary
          # @param time [LogTime]
          # @return [LogRequest, String, nil] a String: another line, which was wrapped; nil: the line is something else
          def parse(line, time)
            start = line.index("{") or return
            text = line.byteslice(start..).force_encoding(Encoding::UTF_8).scrub("?")
            fields = JSON.parse(text, max_nesting: DEEPEST)
            (Hash === fields) ? read(fields, time) : nil
          rescue JSON::ParserError
            nil
          end

          private

          def read(fields, time)
            fields = fields.transform_keys { |key| key.to_s.downcase }
            inner = fields["request"]
            fields = {**flat(inner), **flat(fields["resp_headers"]), **fields} if Hash === inner
            LogFields.request(fields, time) || WRAPPED.filter_map { |key| wrapped(fields[key]) }.first
          end

          def flat(hash) = (Hash === hash) ? hash.transform_keys { |key| key.to_s.downcase } : {}

          def wrapped(text) = (text.b.chomp if String === text && !text.empty?)
        end
      end
    end
  end
end
