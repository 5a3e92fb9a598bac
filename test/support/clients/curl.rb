# frozen_string_literal: true

require "open3"
require "tempfile"
require_relative "../clients"

module NeverBlockTest
  module Clients
    # The program curl: a process for each call, so that one connection lasts for one call's requests.
    class Curl
      CANNOT = %i[keep].freeze # a connection beyond one call; see #several

      def self.missing = ("there is no curl here" unless ENV["PATH"].split(":").any? { |folder| File.executable?("#{folder}/curl") })

      def initialize(port, socket: nil)
        @origin = "http://127.0.0.1:#{port}"
        @options = ["--silent", "--show-error", "--include", "--compressed", "--max-time", LIMIT.to_s, "--noproxy", "*"]
        @options.push("--unix-socket", socket) if socket
      end

      # @param body [String, Array<String>, nil] an Array's parts are sent as chunks come: without a length
      def call(method, path, headers: {}, body: nil)
        options = headers.flat_map { |name, value| ["-H", "#{name}: #{value}"] }
        options += ["-H", "Expect:"] if body && !headers.key?("Expect")
        options += (method == "HEAD") ? ["--head"] : ["-X", method]
        options += ["-H", "Transfer-Encoding: chunked"] if body.is_a?(Array)
        options += ["--data-binary", "@-"] if body
        run(*options, @origin + path, input: Array(body).join).last
      end

      # Several paths over one connection.
      def several(*paths) = run(*paths.map { |path| @origin + path })

      # Yields each piece as it arrives.
      def stream(path)
        IO.popen(["curl", *@options - ["--include"], "--no-buffer", @origin + path]) do |io|
          loop { yield io.readpartial(65_536) }
        rescue EOFError
          nil
        end
      end

      def expect(path, body) = call("POST", path, headers: {"Expect" => "100-continue"}, body:)

      def close = nil

      private

      def run(*arguments, input: "")
        output, errors, status = Open3.capture3("curl", *@options, *arguments, stdin_data: input, binmode: true)
        raise Minitest::Assertion, "curl: #{status}: #{errors}" unless status.success?
        parse(output)
      end

      # Splits heads and bodies that follow each other; --include marks nothing but the heads.
      def parse(output)
        output.split(/(?=HTTP\/1\.1 \d{3} )/).map { |text|
          head, body = text.split("\r\n\r\n", 2)
          status, *fields = head.split("\r\n")
          Clients.answer(status[/ (\d+)/, 1], fields.map { |field| field.split(": ", 2) }, body)
        }.reject { |answer| answer.status < 200 }
      end
    end
  end
end
