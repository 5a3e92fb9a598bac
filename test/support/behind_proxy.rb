# frozen_string_literal: true

require "digest"
require "fileutils"
require "json"
require "openssl"
require "socket"
require "tmpdir"
require_relative "accounting"
require_relative "doc_block"
require_relative "peer"
require_relative "serve_process"
require_relative "wire"

module NeverBlockTest
  # Checks what each proxy of docs/deploy does for the server behind it. The test class starts the proxy and yields a
  # Front:
  #
  #   class DeployNginxTest < Minitest::Test
  #     include NeverBlockTest::BehindProxy
  #
  #     def behind = …    # yields a Front
  #   end
  #
  # The configurations are copied from the pages, with other ports and paths.
  module BehindProxy
    # The proxy's port, its port for TLS or nil, and the servers behind it.
    Front = Struct.new(:port, :tls, :servers)

    # A client's address that is not the proxy's own.
    CLIENT = "127.0.0.2"
    UPLOAD = Random.new(1).bytes(10 << 20).freeze
    PAUSE = 0.01 # seconds between a client's requests; without a pause, the clients use up the processors

    # The next piece of a stream is made once a file exists, which proves that the client got each piece before the
    # next.
    APP = <<~RUBY
      require "digest"
      require "rack/request"
      pieces = ->(out, name) do
        3.times do |number|
          out << "data: \#{number}\\n\\n"
          sleep 0.005 until File.exist?("\#{name}-\#{number}") # real: the test's process makes the file
        end
      end
      run ->(env) {
        request = Rack::Request.new(env)
        name = env["QUERY_STRING"]
        case env["PATH_INFO"]
        when "/seen" then next [200, {}, [[request.ip, request.scheme, request.host, env["REMOTE_ADDR"]].join(" ")]]
        when "/digest" then next [200, {}, [Digest::SHA256.hexdigest(env["rack.input"].read)]]
        when "/stream" then next [200, {"content-type" => "text/plain"}, Enumerator.new { |out| pieces.call(out, name) }]
        when "/events" then next [200, {"content-type" => "text/event-stream", "cache-control" => "no-store"}, ->(stream) { pieces.call(stream, name) }]
        when "/echo"
          io = env["rack.hijack"].call
          io << "HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: echo\\r\\nConnection: Upgrade\\r\\n\\r\\n"
          io << io.readpartial(100)
          io.close
          next [-1, {}, []]
        when "/sleep" then sleep(Float(name)) # real: the proxy has a request under way
        when "/read" then env["rack.input"].read
        end
        [200, {}, ["body"]]
      }
    RUBY

    def test_requests
      behind do |front|
        assert_client_is_seen(front)
        assert_equal Digest::SHA256.hexdigest(UPLOAD), ask(front, "POST /digest HTTP/1.1\r\nContent-Length: #{UPLOAD.bytesize}\r\n", UPLOAD)
        %w[/stream /events].each { |path| assert_comes_in_pieces(front, path) }
        assert_upgrades(front)
        assert_connections_are_kept(front)
      end
    end

    def test_reloads_under_load
      behind do |front|
        loads = [["/", 4, 0], ["/sleep?0.3", 4, 0], ["/read", 2, 100_000]].map { |path, clients, size|
          Accounting.new(front.port, clients:, path:, size:, pause: PAUSE).start
        }
        front.servers.each { |served| replace(served, "USR1") }
        front.servers.each { |served| replace(served, "USR2") }
        go_on(front)
        loads.each(&:stop)
        assert_empty loads.flat_map(&:lost)
        assert_operator loads.sum(&:answered), :>, 100
      end
    end

    private

    # A proxy's test may do more under load.
    def go_on(_front) = nil

    # @param language [String] of a block
    # @param others [Hash{String=>String}] replacements for the page's own words; each word must be in the block
    # @return [String]
    def block(page, language, others, number = 0)
      code = DocBlock.in("docs/deploy/#{page}", language).fetch(number).code
      others.reduce(code) do |text, (word, other)|
        assert_includes text, word, "docs/deploy/#{page}"
        text.gsub(word) { other }
      end
    end

    # @param config [String]
    # @yieldparam served [ServeProcess]
    def serve(config, environment: {}, **options)
      Dir.mktmpdir("nb") do |folder|
        config += "\nhealth 'unix://#{folder}/health'\n" unless config.include?("health ")
        ServeProcess.open(APP, config:, environment: {"RACK_ENV" => "production", "RAILS_ENV" => "production", **environment}, **options) do |served|
          (@health ||= {})[served] = config[/^health ["'](.*)["']/, 1]
          served.addresses
          yield served
        end
      end
    end

    # @return [String] the answer's body
    def ask(front, head, body = "", tls: false)
      socket = connect(front, tls)
      socket << "#{head}Host: shop.example\r\nConnection: close\r\n\r\n"
      socket << body
      answer = socket.read
      assert_match(%r{\AHTTP/1.1 200 }, answer)
      answer.split("\r\n\r\n", 2).last
    ensure
      socket&.close
    end

    def connect(front, tls)
      socket = TCPSocket.new("127.0.0.1", tls ? front.tls : front.port, CLIENT)
      socket.timeout = LIMIT
      tls ? OpenSSL::SSL::SSLSocket.new(socket).tap { |secure| (secure.sync_close = true) && secure.connect } : socket
    end

    # The proxy overwrites an address that the client claims.
    def assert_client_is_seen(front)
      head = "GET /seen HTTP/1.1\r\nX-Forwarded-For: 192.0.2.77\r\n"
      assert_equal [CLIENT, "http", "shop.example", CLIENT], ask(front, head).split
      assert_equal [CLIENT, "https", "shop.example", CLIENT], ask(front, head, tls: true).split if front.tls
    end

    def assert_comes_in_pieces(front, path)
      name = path.delete("/")
      socket = connect(front, false)
      socket << "GET #{path}?#{name} HTTP/1.1\r\nHost: shop.example\r\n\r\n"
      answer = +""
      3.times do |number|
        answer << socket.readpartial(4_096) until answer.include?("data: #{number}")
        front.servers.each { |served| FileUtils.touch("#{served.folder}/#{name}-#{number}") }
      end
    rescue IO::TimeoutError
      flunk "#{path} was held back; so far: #{answer.inspect}"
    ensure
      socket&.close
    end

    # An upgrade as WebSockets do it.
    def assert_upgrades(front)
      socket = connect(front, false)
      socket << "GET /echo HTTP/1.1\r\nHost: shop.example\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n"
      head = +""
      head << socket.readpartial(1) until head.end_with?("\r\n\r\n")
      assert_match(%r{\AHTTP/1.1 101 }, head)
      socket << "any bytes"
      assert_equal "any bytes", socket.read
    ensure
      socket&.close
    end

    # Client connections come and go; the connections to the server are kept.
    def assert_connections_are_kept(front)
      before = numbers(front)
      30.times { ask(front, "GET / HTTP/1.1\r\n") }
      after = wait_for_numbers(front) { |sums| sums[:requests] >= before[:requests] + 30 }
      assert_operator after[:accepted] - before[:accepted], :<=, 8, "connections for 30 requests"
    end

    def wait_for_numbers(front)
      front.servers.first.until_true("the numbers") { numbers(front).then { |sums| yield(sums) && sums } }
    end

    # @return [Hash{Symbol=>Integer}] sums over all workers
    def numbers(front)
      workers = front.servers.flat_map { |served| stats(served)["workers"] }
      %i[requests accepted].to_h { |key| [key, workers.sum { |worker| worker["stats"].fetch(key.to_s, 0) }] }
    end

    def stats(served)
      wire = Wire.new(@health.fetch(served))
      JSON.parse((wire << "GET /stats HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").answer.body)
    ensure
      wire&.close
    end

    def replace(served, signal)
      before = served.workers
      signal_server(served, signal)
      served.until_true("other workers") { served.workers.size == before.size && (served.workers & before).empty? }
    end

    def signal_server(served, signal) = served.signal(signal)

    # A self-signed certificate.
    # @return [String] a file with it and its key
    def certificate(folder)
      key = OpenSSL::PKey::EC.generate("prime256v1")
      certificate = OpenSSL::X509::Certificate.new
      certificate.subject = certificate.issuer = OpenSSL::X509::Name.parse("/CN=shop.example")
      certificate.public_key = key
      certificate.serial = 1
      certificate.version = 2
      certificate.not_before = Time.now - 60
      certificate.not_after = Time.now + 3_600
      certificate.sign(key, "SHA256")
      File.join(folder, "both.pem").tap { |path| File.write(path, certificate.to_pem + key.to_pem) }
    end
  end
end
