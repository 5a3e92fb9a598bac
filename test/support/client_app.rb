# frozen_string_literal: true

require "digest"
require "json"
require "rack"
require "rack/deflater"
require "rack/head"
require "rack/lint"
require "tmpdir"

module NeverBlockTest
  # The app that real HTTP clients call: it has every kind of response, under Rack::Lint.
  #
  #   app = ClientApp.new
  #   server = NeverBlock::Server.new(app.to_app, bind: "tcp://127.0.0.1:0").start
  #
  # /paced waits after each piece until the test calls {#go_on}. A client that has the first piece thereby proves that
  # it was not held back for the rest.
  class ClientApp
    PLAIN = {"content-type" => "text/plain"}.freeze
    BIG = Random.new(7).bytes(1 << 20).freeze
    BIG_COUNT = 6
    PIECES = %w[one two three].freeze
    TEXT = ("all work and no play " * 2_000).freeze

    # @return [String] digest of all of /big and of /file
    DIGEST = Digest::SHA256.hexdigest(BIG * BIG_COUNT).freeze

    def initialize
      @gate = Thread::Queue.new
    end

    # @return [#call]
    def to_app
      app = method(:call)
      Rack::Builder.app do
        use Rack::Lint
        map("/gzip") do
          use Rack::Deflater
          run ->(_env) { [200, PLAIN.dup, [TEXT]] }
        end
        run app
      end
    end

    # Lets /paced go on.
    def go_on = @gate << true

    def call(env)
      case env["PATH_INFO"]
      when "/hello" then [200, PLAIN.merge("x-said" => env["HTTP_X_SAY"].to_s), ["hello"]]
      when "/echo" then echo(env)
      when "/mirror" then [200, {"content-type" => "application/octet-stream"}, [env["rack.input"].read.to_s]]
      when "/each" then [200, PLAIN.dup, PIECES.each]
      when "/call" then [200, PLAIN.dup, ->(stream) { stream.write(*PIECES) && stream.close }]
      when "/paced" then [200, PLAIN.dup, paced]
      when "/big" then [200, {"content-type" => "application/octet-stream"}, Array.new(BIG_COUNT, BIG)]
      when "/big/each" then [200, {"content-type" => "application/octet-stream"}, Array.new(BIG_COUNT, BIG).each]
      when "/file" then [200, {"content-type" => "application/octet-stream"}, FileBody.new(file)]
      when "/cookies" then [200, PLAIN.merge("set-cookie" => ["a=1; path=/", "b=2"]), ["two"]]
      when "/hints" then hints(env)
      # real: the client's other requests are answered first
      when "/wait" then sleep(0.02) && [200, PLAIN.dup, ["waited"]]
      when "/fail" then raise "no"
      when "/204", "/304" then [env["PATH_INFO"][1..].to_i, {}, []]
      else [404, PLAIN.dup, ["there is no #{env["PATH_INFO"]}"]]
      end
    end

    # @return [String] the path of the file behind /file, until {#clear}
    def file
      @folder ||= Dir.mktmpdir("nb")
      "#{@folder}/big".tap { |path| File.binwrite(path, BIG * BIG_COUNT) unless File.exist?(path) }
    end

    # @return [void]
    def clear
      FileUtils.rm_rf(@folder) if @folder
    end

    # A body with a path, as Rack::Files has.
    class FileBody
      attr_reader :to_path

      def initialize(path)
        @to_path = path
      end

      def each
        yield File.binread(@to_path)
      end
    end

    private

    def echo(env)
      body = env["rack.input"].read.to_s
      said = {method: env["REQUEST_METHOD"], length: env["CONTENT_LENGTH"], bytes: body.bytesize, digest: Digest::SHA256.hexdigest(body),
              query: env["QUERY_STRING"], type: env["CONTENT_TYPE"]}
      [200, {"content-type" => "application/json"}, [JSON.generate(said)]]
    end

    def paced
      Enumerator.new do |body|
        PIECES.each do |piece|
          body << piece
          @gate.pop(timeout: 15) or raise "the test did not call go_on"
        end
      end
    end

    def hints(env)
      env["rack.early_hints"].call({"link" => "</style.css>; rel=preload; as=style"})
      [200, PLAIN.dup, ["hinted"]]
    end
  end
end
