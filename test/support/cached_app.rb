# frozen_string_literal: true

require "neverblock/cache"

module NeverBlockTest
  # An app behind a {NeverBlock::Cache}, called with Rack's env, without a server.
  #
  #   cached { |env| ok("hello", "cache-control" => "max-age=60") }
  #   get("/a").body      # => "hello"
  #   @calls              # => 1
  module CachedApp
    # What a client has got.
    Response = Struct.new(:status, :headers, :body)

    private

    # @yieldparam env [Hash]
    # @yieldreturn [Array] a Rack response
    def cached(**options, &app)
      @calls = @now = @most_at_once = 0
      @open = false
      @waiting = Thread::Queue.new
      @cache = NeverBlock::Cache.new(lambda { |env| count { instance_exec(env, &app) } }, **options)
    end

    def count
      @calls += 1
      @now += 1
      @most_at_once = [@most_at_once, @now].max
      yield
    ensure
      @now -= 1
    end

    # In the app: waits until all clients of {#together} have asked.
    def wait_here = @waiting.pop

    def go_on = @waiting.close

    # Runs the block in a forked child, where the app goes on.
    # @return [Array(Integer, String)] the child's process ID, and the block's value as text
    def forked
      reader, writer = IO.pipe
      child = fork do
        go_on
        writer.write(yield)
        writer.close
        exit!(0)
      end
      writer.close
      [child, reader.read].tap { Process.wait(child) }
    end

    # @return [Array] the block's values, of so many clients at once
    def together(number)
      @waiting = Thread::Queue.new
      @most_at_once = 0
      in_run do |scope|
        clients = Array.new(number) { |n| scope.spawn { yield n } }
        clients.each { |client| parked(client) }
        go_on
        clients.map(&:value)
      end
    end

    def ok(body, status: 200, **headers) = [status, {"content-type" => "text/plain", **headers}, Array(body)]

    def get(path, **env) = request("GET", path, **env)

    def env_of(method, path, **env)
      path, query = path.split("?", 2)
      {"REQUEST_METHOD" => method, "SCRIPT_NAME" => "", "PATH_INFO" => path, "QUERY_STRING" => query.to_s,
       "HTTP_HOST" => "example.org", "SERVER_NAME" => "example.org", "SERVER_PORT" => "80", "rack.url_scheme" => "http",
       "REMOTE_ADDR" => "192.0.2.7", **env}
    end

    def request(method, path, **env)
      status, headers, body = @cache.call(env_of(method, path, **env))
      text = +""
      body.each { |chunk| text << chunk }
      Response.new(status, headers, text)
    ensure
      body.close if body.respond_to?(:close)
    end
  end
end
