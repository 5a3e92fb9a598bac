# frozen_string_literal: true

require "net/http"
require "uri"

module Conformance
  module Applications
    # One client that behaves like a browser: it keeps its connection and cookies, and sends the CSRF token of the last
    # page.
    #
    #   visitor = Visitor.new(3000, 7)
    #   visitor.call({"get" => "/session/new"})
    #   visitor.call({"post" => "/session", "form" => {"email" => "user%{n}@example.com"}, "status" => 302})   # => #<struct Visitor::Answer ...>
    #
    # A step names a method with its path, and may have: `form`, its fields; `status`, 200 by default; `expect`, a text
    # of the answer. `%{n}` is the visitor's number, `%{turn}` the number of its visit.
    class Visitor
      LIMIT = 60 # seconds for one answer
      HOST = "app.test" # on all ports, since pages have it in their links
      AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"
      METHODS = {"get" => Net::HTTP::Get, "post" => Net::HTTP::Post}.freeze
      TOKEN = /<meta name="csrf-token" content="([^"]+)"/

      # An answer: the step, seconds, and the mistake, if the answer contradicts the step.
      Answer = Struct.new(:step, :seconds, :status, :body, :mistake)

      # @param port [Integer]
      # @param number [Integer] also determines its address: applications limit requests per address
      # @param host [String] the application's name for itself
      def initialize(port, number, host: HOST)
        @http = Net::HTTP.new("127.0.0.1", port)
        @http.read_timeout = LIMIT
        @http.max_retries = 0
        @number = number
        @host = host
        @cookies = {}
        @turn = 0
      end

      # @return [void] counts the next visit
      def turn! = @turn += 1

      # @param step [Hash{String=>Object}]
      # @return [Answer]
      def call(step)
        request = request(step)
        started = now
        @http.start unless @http.started?
        response = @http.request(request)
        Answer.new(step, now - started, response.code.to_i, remember(response), nil).tap { |answer| answer.mistake = mistake(answer) }
      rescue IOError, SystemCallError, Timeout::Error, Net::ProtocolError, Net::HTTPBadResponse => error
        @http.finish if @http.started?
        Answer.new(step, now - started, nil, "", "#{name(step)}: #{error.class}: #{error.message}")
      end

      # @return [void]
      def leave = (@http.finish if @http.started?)

      private

      def request(step)
        verb = METHODS.keys.find { |key| step.key?(key) } || raise(ArgumentError, "a step has none of #{METHODS.keys.join(", ")}: #{step}")
        request = METHODS[verb].new(fill(step[verb]), "Cookie" => @cookies.map { |pair| pair.join("=") }.join("; "), "User-Agent" => AGENT, "Host" => @host,
          "X-Forwarded-For" => "203.0.113.#{@number + 1}", "Accept" => step.fetch("accept", "text/html"))
        return request if verb == "get"
        request["X-CSRF-Token"] = @token
        request.set_form_data(step.fetch("form", {}).transform_values { |value| fill(value) })
        request
      end

      def fill(text) = text.to_s.gsub("%{n}", @number.to_s).gsub("%{turn}", @turn.to_s)

      # @return [String] the body
      def remember(response)
        response.get_fields("set-cookie")&.each do |cookie|
          key, value = cookie[/\A[^;]*/].split("=", 2)
          @cookies[key] = value
        end
        response.body.to_s.tap { |body| @token = $1 if body.force_encoding("UTF-8") =~ TOKEN }
      end

      def mistake(answer)
        wanted, text = answer.step.fetch("status", 200), answer.step["expect"]
        return "#{name(answer.step)}: #{answer.status} where #{wanted} was expected" unless answer.status == wanted
        "#{name(answer.step)}: without #{fill(text).inspect}" unless text.nil? || answer.body.include?(fill(text))
      end

      def name(step) = METHODS.keys.filter_map { |verb| "#{verb} #{step[verb]}" if step.key?(verb) }.first

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
