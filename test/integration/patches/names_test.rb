# frozen_string_literal: true

# slow: look-ups by a resolver that takes its time

require "test_helper"
require "support/slow_names"

# Host names under a slow or dead resolver, in programs of their own.
class NamesTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::SlowNames

  # The beginning of each program: an HTTP server in a thread, and a gate that releases the resolver's answers.
  PRELUDE = <<~RUBY
    require "neverblock"
    require "fileutils"
    require "net/http"
    require "socket"
    require "tempfile"

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

    def open_gate = File.write(ENV.fetch("NEVERBLOCK_TEST_GATE"), "")

    def close_gate = FileUtils.rm_f(ENV.fetch("NEVERBLOCK_TEST_GATE"))

    # Runs the block; another fiber releases its answer after twenty turns.
    def beside_another
      close_gate
      other = NeverBlock.spawn do
        20.times { sleep 0.002 } # real: a native thread looks up
        open_gate
      end
      yield
      puts other.alive? ? "the other fiber was held up, or nothing was looked up" : "the other fiber went on"
    end

    # Runs the block in so many tasks, and releases the answer when all of them wait.
    def all_waiting(count, &look_up)
      close_gate
      tasks = Array.new(count) { NeverBlock.spawn(&look_up) }
      sleep 0.001 until tasks.all? { |task| task.state == :running && task.waits_for } # real: a native thread looks up
      open_gate
      tasks.each(&:value)
    end
  RUBY

  # Ruby 3.3 looks up both families at once and tries one address after the other.
  RACES = RUBY_VERSION >= "3.4"

  # No delay but the gate's.
  SLOW = {"slow.test" => {"127.0.0.1" => 0, "-6" => 0}}.freeze

  # Ways to use a name that takes a while to resolve.
  WAYS = {
    "TCPSocket.new" => 'TCPSocket.new("slow.test", PORT).close',
    "Socket.tcp" => 'Socket.tcp("slow.test", PORT).close',
    "Net::HTTP" => 'Net::HTTP.get("slow.test", "/", PORT) == "hello" or raise "no answer"',
    "Addrinfo.getaddrinfo" => 'Addrinfo.getaddrinfo("slow.test", PORT).first.ip_address == "127.0.0.1" or raise "wrong"',
    "UDPSocket#connect" => 'UDPSocket.new.connect("slow.test", PORT)'
  }.freeze

  WAYS.each do |name, code|
    define_method("test_other_fibers_go_on_during_#{name}") do
      with_names(SLOW, gate: true) do |resolver|
        output = assert_ruby(<<~RUBY, **resolver)
          #{PRELUDE}
          NeverBlock.run { beside_another { #{code} } }
        RUBY
        assert_equal "the other fiber went on\n", output
      end
    end
  end

  def test_other_fibers_go_on_during_reverse_look_ups
    with_names({}, gate: true) do |resolver|
      output = assert_ruby(<<~RUBY, **resolver)
        #{PRELUDE}
        NeverBlock.run do
          socket = TCPSocket.new("127.0.0.1", PORT)
          [
            -> { Addrinfo.tcp("127.0.0.1", 80).getnameinfo },
            -> { Socket.getnameinfo(Socket.sockaddr_in(80, "127.0.0.1")) },
            -> { socket.peeraddr(true) },
            -> { socket.addr(:hostname) }
          ].each { |way| beside_another(&way) }
        end
      RUBY
      assert_equal "the other fiber went on\n" * 4, output
    end
  end

  def test_a_dead_resolver_never_stalls_files
    names = Array.new(100) { |number| ["dead#{number}.test", {"127.0.0.1" => 60_000, "::1" => 60_000}] }.to_h
    with_names(names) do |resolver|
      output = assert_ruby(<<~RUBY, **resolver)
        #{PRELUDE}
        NeverBlock.run do
          tasks = Array.new(100) { |number| NeverBlock.spawn { TCPSocket.new("dead\#{number}.test", PORT) } }
          sleep 0.001 until tasks.all? { |task| task.state == :running && task.waits_for } # real: a native thread looks up
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
    with_names(SLOW, gate: true) do |resolver|
      assert_ruby(<<~RUBY, **resolver)
        #{PRELUDE}
        NeverBlock.run do
          2.times { all_waiting(50) { TCPSocket.new("slow.test", PORT).close } }
          all_waiting(50) { Addrinfo.getaddrinfo("slow.test", PORT) }
        end
      RUBY
      expected = RACES ? {"slow.test IPv6" => 2, "slow.test IPv4" => 2, "slow.test any" => 1} : {"slow.test any" => 3}
      assert_equal expected, resolver.questions.tally
    end
  end

  def test_loops_of_several_threads_share_a_look_up
    with_names({"slow.test" => {"127.0.0.1" => 0}}, gate: true) do |resolver|
      assert_ruby(<<~RUBY, **resolver)
        #{PRELUDE}
        waiting = Thread::Queue.new
        threads = Array.new(3) do
          Thread.new do
            NeverBlock.run do
              task = NeverBlock.spawn { Addrinfo.getaddrinfo("slow.test", PORT, nil, :STREAM).first.ip_address }
              sleep 0.001 until task.state == :running && task.waits_for # real: a native thread looks up
              waiting << true
              task.value
            end
          end
        end
        3.times { waiting.pop }
        open_gate
        threads.map(&:value) == ["127.0.0.1"] * 3 or raise "wrong addresses"
      RUBY
      assert_equal ["slow.test any"], resolver.questions
    end
  end

  def test_a_caller_that_gives_up_spoils_no_other_look_up
    with_names(SLOW, gate: true) do |resolver|
      output = assert_ruby(<<~RUBY, **resolver)
        #{PRELUDE}
        NeverBlock.run do
          hasty = NeverBlock.spawn { outcome { Timeout.timeout(0.1, ArgumentError) { TCPSocket.new("slow.test", PORT) } } }
          patient = NeverBlock.spawn { outcome { TCPSocket.new("slow.test", PORT).remote_address.ip_address } }
          cancelled = NeverBlock.spawn { TCPSocket.new("slow.test", PORT) }
          hasty.join
          cancelled.cancel
          cancelled.join
          open_gate
          puts hasty.value.class, patient.value
        end
      RUBY
      assert_equal %w[ArgumentError 127.0.0.1], output.split
      assert_equal 1, resolver.questions.count(RACES ? "slow.test IPv4" : "slow.test any")
    end
  end

  def test_an_ipv6_answer_that_never_comes_delays_no_caller_for_long
    skip "Ruby 3.3 waits for both families" unless RACES
    with_names({"half.test" => {"127.0.0.1" => 0, "::1" => 60_000}}) do |resolver|
      output = assert_ruby(<<~RUBY, **resolver)
        #{PRELUDE}
        NeverBlock.run { puts TCPSocket.new("half.test", PORT).remote_address.ip_address }
      RUBY
      assert_equal "127.0.0.1", output.strip
    end
  end

  def test_net_http_gives_up_in_time
    with_names({"dead.test" => {"127.0.0.1" => 60_000, "::1" => 60_000}}) do |resolver|
      output = assert_ruby(<<~RUBY, **resolver)
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
      output = assert_ruby(<<~RUBY, **resolver)
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
end
