# frozen_string_literal: true

require "json"
require "rack"

# Features that a server must support for a Rack app, a path for each: test/programs/rack_conformance_test.rb requests
# them.
class ConformanceApp
  # A body with `each` only: no to_ary, no length, no close.
  Only = Struct.new(:input) do
    def each(&) = input.each(&)
    undef_method :to_a, :size, :length
  end

  # A middleware that is the body of its response.
  class Itself
    def call(_env) = [200, {}, self]

    def each
      yield "it"
      yield "self"
    end
  end

  def call(env)
    return options(env) if env["REQUEST_METHOD"] == "OPTIONS"
    name = env["PATH_INFO"].delete_prefix("/")
    respond_to?(name) ? public_send(name, env) : [404, {}, []]
  end

  def options(env) = [200, {"allow" => "GET, OPTIONS"}, ["#{env["REQUEST_METHOD"]} #{env["PATH_INFO"]}"]]

  def release(_env) = [200, {}, [Rack.release]]

  def status(env) = [env["HTTP_STATUS"].to_i, {}, []]

  def echo(env) = [200, {}, Only.new(env["rack.input"])]

  def cookies(env) = response(env) { |response, name, value| response.set_cookie(name, value) }

  def headers(env) = response(env) { |response, name, value| Array(value).each { |one| response.add_header(name, one) } }

  def itself_as_body(env) = Itself.new.call(env)

  def enumerator(_env) = [200, {}, Enumerator.new { |out| 10.times { |number| out.yield "line #{number}\n" } }]

  def callable(_env) = [200, {}, ->(stream) { stream.write("called") && stream.close }]

  def partial_hijack(env)
    return [404, {}, []] unless env["rack.hijack?"]
    [200, {"rack.hijack" => ->(stream) { stream.write("hijacked") && stream.close }}, nil]
  end

  def full_hijack(env)
    io = env["rack.hijack"].call
    io.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nwhole")
    io.close
    [-1, {}, []]
  end

  # The basis of websockets: bytes in both directions after 101, by a streaming body and by a hijack.
  def upgrade_by_body(_env) = [101, upgrade, method(:converse)]

  def upgrade_by_hijack(_env) = [101, upgrade.merge("rack.hijack" => method(:converse)), []]

  private

  def upgrade = {"connection" => "upgrade", "upgrade" => "echo"}

  def converse(stream)
    while (said = stream.readpartial(100)) != "end"
      stream.write("#{said}!")
      stream.flush
    end
    stream.close
  end

  def response(env)
    response = Rack::Response.new
    JSON.parse(env["rack.input"].read).each { |name, value| yield response, name, value }
    response.finish
  end
end

run ConformanceApp.new
