# frozen_string_literal: true

# slow: it starts servers

require "test_helper"
require "neverblock/server"
require "net/http"
require "support/memcached"
require "support/redis"
require "support/relay"
require "support/runs"
require "stringio"

# The bug of pools under timeouts: a user is interrupted in the middle of a response, and the next one reads its rest.
# Each client with its real server, which falls silent at the first byte of a response, or in its middle.
class ConnectionPoolClientsTest < Minitest::Test
  include NeverBlockTest::Runs

  # A client: its server, its connections, and a question whose response has the number asked with.
  class Kind
    # @return [String, nil] why it can't be tested
    def self.missing = nil

    # @return [Boolean] whether a fiber also parks in the middle of a response
    def self.parks? = true

    # @return [Boolean] whether the client takes a timeout before the response has come
    def self.heeds_timeouts? = true

    # @return [Relay]
    attr_reader :relay

    def initialize
      start
      @relay = NeverBlockTest::Relay.new { reach }
    end

    def stop
      @relay.close
      finish
    end
  end

  # redis-client
  class RedisKind < Kind
    def self.missing = NeverBlockTest::RedisServer.missing || ("redis-client is not among the gems here" unless Gem.loaded_specs.key?("redis-client"))

    def start
      require "redis-client"
      @server = NeverBlockTest::RedisServer.start
    end

    def reach = UNIXSocket.new(@server.path)

    def connect = RedisClient.config(host: "127.0.0.1", port: @relay.port, timeout: 60, reconnect_attempts: 0).new_client.tap { |client| client.call("PING") }

    def ask(client, number) = client.call("ECHO", "number #{number}")

    def finish = @server.stop
  end

  # dalli
  class DalliKind < Kind
    def self.missing = NeverBlockTest::MemcachedServer.missing || ("dalli is not among the gems here" unless Gem.loaded_specs.key?("dalli"))

    def start
      require "dalli"
      Dalli.logger.level = Logger::FATAL
      @server = NeverBlockTest::MemcachedServer.start
    end

    def reach = UNIXSocket.new(@server.path)

    def connect
      Dalli::Client.new("127.0.0.1:#{@relay.port}", protocol: :meta, socket_timeout: 60, socket_max_failures: 0).tap do |client|
        3.times { |number| client.set("key#{number}", "number #{number}") }
      end
    end

    def ask(client, number) = client.get("key#{number}")

    def finish = @server.stop
  end

  # Net::HTTP
  class HttpKind < Kind
    def start
      app = ->(env) { [200, {"content-type" => "text/plain"}, ["number #{env["PATH_INFO"][/\d+/]}"]] }
      @server = NeverBlock::Server.new(app, bind: "tcp://127.0.0.1:0", error_log: StringIO.new).start
    end

    def reach = TCPSocket.new("127.0.0.1", URI(@server.addresses.first).port)

    def connect
      Net::HTTP.new("127.0.0.1", @relay.port).tap do |http|
        http.max_retries = 0
        http.start
      end
    end

    def ask(http, number) = http.get("/#{number}").body

    def finish = @server.stop
  end

  # A socket, and a protocol of lines.
  class SocketKind < Kind
    def start
      @server = TCPServer.new("127.0.0.1", 0)
      @thread = Thread.new do
        loop { Thread.new(@server.accept) { |socket| socket.each_line { |line| socket.write("number #{line}") } } }
      end
    end

    def reach = TCPSocket.new("127.0.0.1", @server.addr[1])

    def connect = TCPSocket.new("127.0.0.1", @relay.port)

    def ask(socket, number)
      socket.puts(number)
      socket.gets&.chomp
    end

    def finish
      @thread.kill.join
      @server.close
    end
  end

  # What both of MySQL's drivers need.
  class MySQLKind < Kind
    SERVER = File.join(NeverBlockTest::ROOT, "test", "support", "mysql_server.rb")

    def self.missing
      return "there is no test/support/mysql_server.rb" unless File.file?(SERVER)
      require SERVER
      NeverBlockTest::MySQLServer.missing || ("#{driver} is not among the gems here" unless Gem.loaded_specs.key?(driver))
    end

    # @return [MySQLServer] of all these tests: it takes seconds to start
    def self.server = @@server ||= NeverBlockTest::MySQLServer.start.tap { |server| Minitest.after_run { server.stop } }

    @@server = nil

    def start
      require self.class.driver
      self.class.server
    end

    def reach = UNIXSocket.new(self.class.server.socket)

    def finish = nil

    def options = self.class.server.options(port: @relay.port)
  end

  # trilogy
  class TrilogyKind < MySQLKind
    def self.driver = "trilogy"

    def connect = Trilogy.new(options)

    def ask(client, number) = client.query("select 'number #{number}'").first.first
  end

  # mysql2, which waits for a response's first bytes with the scheduler, and in C for the others. It holds off Timeout
  # until it has the response: its read_timeout is what ends it.
  class Mysql2Kind < MySQLKind
    def self.driver = "mysql2"

    def self.parks? = false

    def self.heeds_timeouts? = false

    def connect = Mysql2::Client.new(options)

    def ask(client, number) = client.query("select 'number #{number}' as answer").first.fetch("answer")
  end

  KINDS = {redis: RedisKind, dalli: DalliKind, trilogy: TrilogyKind, mysql2: Mysql2Kind, net_http: HttpKind, socket: SocketKind}.freeze

  INTERRUPTIONS = {
    cancel: lambda do |test, asking|
      task = NB.spawn(&asking)
      test.silence
      task.cancel
      task.join
    end,
    timeout: ->(test, asking) { test.raised { NeverBlock.timeout(0.05) { asking.call } } },
    kill: lambda do |test, asking|
      thread = Thread.new(&asking)
      test.silence
      thread.kill.join
    end,
    raise: lambda do |test, asking|
      thread = Thread.new(&asking)
      thread.report_on_exception = false
      test.silence
      thread.raise("given up")
      test.raised { thread.join }
    end,
    fiber_raise: lambda do |test, asking|
      task = NB.spawn { test.raised(&asking) }
      test.silence
      task.fiber.raise("given up")
      task.join
    end
  }.freeze

  KINDS.each do |client, kind|
    INTERRUPTIONS.each do |way, interrupt|
      next if way == :timeout && !kind.heeds_timeouts?
      (kind.parks? ? [0, 3] : [0]).each do |bytes|
        define_method(:"test_#{client}_#{way}_after_#{bytes}_bytes") do
          missing = kind.missing and skip missing
          @kind = kind.new
          pool = NeverBlock::ConnectionPool.new(size: 1, timeout: 60) { @kind.connect }
          in_run do
            first = pool.with { |connection| connection }
            @kind.relay.withhold(after: bytes)
            interrupt.call(self, -> { pool.with { |connection| @kind.ask(connection, 1) } })
            @kind.relay.let_go
            assert_equal "number 2", pool.with { |connection| @kind.ask(connection, 2) }
            refute pool.with { |connection| connection.equal?(first) }, "it is the same connection"
          end
          assert_equal [1, 2], pool.stats.values_at(:interrupted, :opened)
          pool.close
        end
      end
    end

    define_method(:"test_#{client}_throw_between_request_and_response") do
      missing = kind.missing and skip missing
      @kind = kind.new
      pool = NeverBlock::ConnectionPool.new(size: 1) { @kind.connect }
      in_run do
        catch(:out) { pool.with { |connection| @kind.ask(connection, 1) && throw(:out) } }
        assert_equal "number 2", pool.with { |connection| @kind.ask(connection, 2) }
      end
      assert_equal 1, pool.stats[:interrupted]
      pool.close
    end
  end

  def teardown
    @kind&.stop
  end

  # Waits until the server's response is on its way, and withheld.
  def silence = pass_until("a response that is withheld") { @kind.relay.withheld > 0 }
end
