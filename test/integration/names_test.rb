# frozen_string_literal: true

require "test_helper"
require "support/slow_names"

# Host names under a resolver that is slow, dead or half dead, in programs of their own.
class NamesTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::SlowNames

  # Written before each program: an HTTP server in a thread, and a fiber that measures
  # by how many milliseconds it is late while the block runs.
  PRELUDE = <<~RUBY
    require "neverblock"
    require "net/http"
    require "socket"
    require "tempfile"

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    def took = now.then { |start| yield && now - start }

    def outcome
      yield
    rescue Exception => error
      error
    end

    SERVER = TCPServer.new("127.0.0.1", 0)
    PORT = SERVER.local_address.ip_port
    Thread.new do
      loop do
        Thread.new(SERVER.accept) do |client|
          next client.close unless client.gets
          nil until client.gets.chomp.empty?
          client.write("HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\nConnection: close\\r\\n\\r\\nhello")
          client.close
        end
      end
    end

    # @return [Array<Float>] the median and the worst delay of the other fiber, and its turns
    def lateness
      over = false
      late = []
      watch = NeverBlock.spawn do
        until over
          start = now
          sleep 0.002
          late << (now - start - 0.002) * 1000
        end
      end
      sleep 0.01 until late.any?
      late.clear
      yield
      over = true
      watch.join
      late.sort!
      [late[late.size / 2], late.last, late.size]
    end
  RUBY

  # Ruby 3.3 looks both families up in one question and tries one address after the other.
  RACES = RUBY_VERSION >= "3.4"

  SLOW = {"slow.test" => {"127.0.0.1" => 500, "-6" => 500}}.freeze

  # What a program does with a name that takes 500 ms to be resolved.
  WAYS = {
    "TCPSocket.new" => 'TCPSocket.new("slow.test", PORT).close',
    "Socket.tcp" => 'Socket.tcp("slow.test", PORT).close',
    "Net::HTTP" => 'Net::HTTP.get("slow.test", "/", PORT) == "hello" or raise "no answer"',
    "Addrinfo.getaddrinfo" => 'Addrinfo.getaddrinfo("slow.test", PORT).first.ip_address == "127.0.0.1" or raise "wrong"',
    "UDPSocket#connect" => 'UDPSocket.new.connect("slow.test", PORT)'
  }.freeze

  WAYS.each do |name, code|
    define_method("test_other_fibers_are_not_late_during_#{name}") do
      with_names(SLOW) do |resolver|
        output = assert_ruby(<<~RUBY, **resolver)
          #{PRELUDE}
          NeverBlock.run do
            elapsed = nil
            delays = lateness { elapsed = took { #{code}; true } }
            puts [elapsed, *delays].join(" ")
          end
        RUBY
        assert_in_time(output)
      end
    end
  end

  def test_reverse_look_up_does_not_make_others_late
    with_names({}, nameinfo: 500) do |resolver|
      output = assert_ruby(<<~RUBY, **resolver)
        #{PRELUDE}
        NeverBlock.run do
          socket = TCPSocket.new("127.0.0.1", PORT)
          [
            -> { Addrinfo.tcp("127.0.0.1", 80).getnameinfo },
            -> { Socket.getnameinfo(Socket.sockaddr_in(80, "127.0.0.1")) },
            -> { socket.peeraddr(true) },
            -> { socket.addr(:hostname) }
          ].each do |way|
            elapsed = nil
            delays = lateness { elapsed = took { way.call } }
            puts [elapsed, *delays].join(" ")
          end
        end
      RUBY
      assert_equal 4, output.lines.size
      output.each_line do |line|
        assert_in_time(line)
      end
    end
  end

  def test_a_dead_resolver_never_stalls_files
    names = Array.new(100) { |number| ["dead#{number}.test", {"127.0.0.1" => 60_000, "::1" => 60_000}] }.to_h
    with_names(names) do |resolver|
      output = assert_ruby(<<~RUBY, **resolver, limit: 30)
        #{PRELUDE}
        NeverBlock.run do
          tasks = Array.new(100) { |number| NeverBlock.spawn { TCPSocket.new("dead\#{number}.test", PORT) } }
          sleep 0.05 # all are under way
          Tempfile.create do |file|
            20.times do |number|
              file.write("x" * 100_000)
              file.flock(File::LOCK_EX)
              file.fsync
              file.flock(File::LOCK_UN)
              file.rewind
              File.read(file.path).size == 100_000 or raise "read too little"
              IO.copy_stream(file.path, IO::NULL)
              file.truncate(0)
            end
          end
          puts tasks.count(&:alive?)
          tasks.each(&:cancel)
        end
      RUBY
      assert_equal "100", output.strip
    end
  end

  def test_look_ups_of_one_name_are_one_look_up_and_nothing_is_cached
    with_names({"slow.test" => {"127.0.0.1" => 300, "-6" => 300}}) do |resolver|
      assert_ruby(<<~RUBY, **resolver)
        #{PRELUDE}
        NeverBlock.run do
          2.times { NeverBlock.concurrently(1..50, limit: 50) { TCPSocket.new("slow.test", PORT).close } }
          NeverBlock.concurrently(1..50, limit: 50) { Addrinfo.getaddrinfo("slow.test", PORT) }
        end
      RUBY
      expected = RACES ? {"slow.test IPv6" => 2, "slow.test IPv4" => 2, "slow.test any" => 1} : {"slow.test any" => 3}
      assert_equal expected, resolver.questions.tally
    end
  end

  def test_loops_of_several_threads_share_a_look_up
    with_names({"slow.test" => {"127.0.0.1" => 500}}) do |resolver|
      assert_ruby(<<~RUBY, **resolver)
        #{PRELUDE}
        threads = Array.new(3) do
          Thread.new { NeverBlock.run { Addrinfo.getaddrinfo("slow.test", PORT, nil, :STREAM).first.ip_address } }
        end
        threads.map(&:value) == ["127.0.0.1"] * 3 or raise "wrong addresses"
      RUBY
      assert_equal ["slow.test any"], resolver.questions
    end
  end

  def test_a_caller_that_gives_up_spoils_nobody
    with_names({"slow.test" => {"127.0.0.1" => 600, "-6" => 0}}) do |resolver|
      output = assert_ruby(<<~RUBY, **resolver)
        #{PRELUDE}
        NeverBlock.run do
          hasty = NeverBlock.spawn { outcome { Timeout.timeout(0.1, ArgumentError) { TCPSocket.new("slow.test", PORT) } } }
          patient = NeverBlock.spawn { outcome { TCPSocket.new("slow.test", PORT).remote_address.ip_address } }
          cancelled = NeverBlock.spawn { TCPSocket.new("slow.test", PORT) }
          sleep 0.2
          cancelled.cancel
          puts hasty.value.class, patient.value
        end
      RUBY
      assert_equal %w[ArgumentError 127.0.0.1], output.split
      assert_equal 1, resolver.questions.count(RACES ? "slow.test IPv4" : "slow.test any")
    end
  end

  def test_an_ipv6_answer_that_never_comes_delays_nobody_for_long
    skip "Ruby 3.3 waits for both families" unless RACES
    with_names({"half.test" => {"127.0.0.1" => 0, "::1" => 60_000}}) do |resolver|
      output = assert_ruby(<<~RUBY, **resolver, limit: 30)
        #{PRELUDE}
        NeverBlock.run { puts TCPSocket.new("half.test", PORT).remote_address.ip_address }
      RUBY
      assert_equal "127.0.0.1", output.strip
    end
  end

  def test_net_http_gives_up_in_time
    with_names({"dead.test" => {"127.0.0.1" => 60_000, "::1" => 60_000}}) do |resolver|
      output = assert_ruby(<<~RUBY, **resolver, limit: 30)
        #{PRELUDE}
        NeverBlock.run do
          http = Net::HTTP.new("dead.test", PORT)
          http.open_timeout = 0.2
          puts outcome { http.start }.class
        end
      RUBY
      assert_equal "Net::OpenTimeout", output.strip
    end
  end

  def test_resolv_timeout
    skip "Ruby 3.3 has no limit for names" unless RACES
    with_names({"dead.test" => {"127.0.0.1" => 60_000, "::1" => 60_000}}) do |resolver|
      output = assert_ruby(<<~RUBY, **resolver, limit: 30)
        #{PRELUDE}
        NeverBlock.run { puts outcome { TCPSocket.new("dead.test", PORT, resolv_timeout: 0.2) }.class }
      RUBY
      assert_equal (RUBY_VERSION < "4.0") ? "Errno::ETIMEDOUT" : "IO::TimeoutError", output.strip
    end
  end

  def test_names_of_the_hosts_file_work
    output = assert_ruby(<<~RUBY)
      #{PRELUDE}
      NeverBlock.run do
        puts Net::HTTP.get(URI("http://localhost:\#{PORT}/"))
        puts Fiber.scheduler.address_resolve("localhost").include?("127.0.0.1")
        p Fiber.scheduler.address_resolve("no.such.name.invalid")
        puts outcome { Addrinfo.getaddrinfo("no.such.name.invalid", 80) }.class
      end
    RUBY
    assert_equal %w[hello true nil Socket::ResolutionError], output.split
  end

  private

  # @param line [String] the seconds that the call took, and what lateness says in milliseconds
  def assert_in_time(line)
    elapsed, median, worst, turns = line.split.map(&:to_f)
    assert_operator elapsed, :>=, 0.5, "the resolver was not slow"
    assert_operator turns, :>, 10, "the other fiber had few turns meanwhile"
    assert_operator median, :<, 10, "milliseconds, the median"
    assert_operator worst, :<, 250, "milliseconds, the worst of a machine with other work"
  end
end
