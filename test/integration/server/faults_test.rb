# frozen_string_literal: true

# chaos: each system call of a request fails once, and then each of a worker's start

require "test_helper"
require "json"
require "support/faults"
require "support/serve_process"

# Whatever call of the system fails, and when: the server goes on, and counts nothing twice or for ever.
class ServerFaultsTest < Minitest::Test
  include NeverBlockTest::Helpers

  # /work uses what a request may use: files, pipes, connections, threads.
  APP = <<~'RUBY'
    require "socket"
    require "json"
    other = Addrinfo.tcp("127.0.0.1", 0).listen
    core = -> { ObjectSpace.each_object(NeverBlock::Server::Core).first.stats }
    counts = lambda do
        server = core.call.slice(:in_flight, :ready, :queued, :streams, :connections)
      fibers = core.call.values_at(:fibers, :idle_fibers).reduce(:-)
      {**server, fibers:, jobs: NeverBlock::Loops.stats.sum { |loop| loop[:jobs] }, queued_jobs: NeverBlock::ThreadPool.offload.stats[:queued]}
    end
    run(lambda do |env|
      case env["PATH_INFO"]
      when "/work"
        env["rack.input"]&.read
        tasks = Array.new(2) { NeverBlock.spawn { NeverBlock.offload { 1 } } }
        File.write("file", "text" * 1000)
        other.connect_address.connect.close
        IO.pipe.each(&:close)
        File.read("file")
        tasks.each(&:value)
      when "/counts" then next [200, {}, [counts.call.to_json]]
      end
      [200, {}, ["done by #{Process.pid}"]]
    end)
  RUBY

  # What /counts finds, next to nothing but itself.
  ALONE = {"in_flight" => 1, "ready" => 0, "queued" => 0, "streams" => 0, "connections" => 1, "fibers" => 1, "jobs" => 0,
           "queued_jobs" => 0}.freeze

  def setup
    skip NeverBlockTest::Faults.missing if NeverBlockTest::Faults.missing
  end

  def test_each_call_of_a_request
    with_faults(config: "body_memory '1 KiB'") do |served, faults|
      failed = %i[descriptor connect thread write].to_h do |kind|
        walked = faults.walk(kind, -> { post(served, "/work") }) do |number, answer|
          assert_match(/\AHTTP\/1\.1 (200|500|503) /, answer, "#{kind} #{number}") unless answer.empty?
          assert_match(/done by #{served.pid}/, served.get("/"), "#{kind} #{number}")
          settle(served, "#{kind} #{number}")
        end
        [kind, walked]
      end
      failed.each { |kind, count| assert_operator count, :>, 0, kind }
      served.stop
    end
  end

  # Of its template, which forks it, of its own, and of the supervisor's.
  def test_each_call_of_a_worker_s_replacement
    with_faults("-w", "1") do |served, faults|
      failed = %i[descriptor connect thread write].to_h do |kind|
        walked = faults.walk(kind, -> { replace_worker(served) }) do |number, _|
          what = "#{kind} #{number}"
          assert_predicate served, :running?, what
          settle(served, what)
          served.until_true("#{what}: one worker") { served.workers.size == 1 }
        end
        [kind, walked]
      end
      %i[descriptor thread write].each { |kind| assert_operator failed[kind], :>, 0, kind }
      served.stop
    end
  end

  private

  # @return [String] the number of the new one
  def replace_worker(served)
    old = worker(served)
    Process.kill(:KILL, old.to_i)
    served.until_true("another worker") { (found = worker(served)) && found != old && found }
  end

  # @return [String, nil] nil: the connection broke off
  def worker(served)
    served.body("/")&.delete_prefix("done by ")
  rescue SystemCallError
    nil
  end

  def with_faults(*arguments, config: nil)
    NeverBlockTest::Faults.open do |faults|
      NeverBlockTest::ServeProcess.open(APP, *arguments, "-p", "0", config:, environment: faults.environment) do |served|
        served.get("/work")
        yield served, faults
      end
    end
  end

  def post(served, path)
    served.connect.then do |socket|
      socket << "POST #{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 5000\r\n\r\n#{"x" * 5_000}"
      socket.read
    ensure
      socket&.close
    end
  end

  def settle(served, what)
    counts = nil
    served.until_true(what) { (counts = JSON.parse(served.body("/counts"))) == ALONE }
  end
end
