# frozen_string_literal: true

# Many kinds of waiting at once on one thread: HTTP requests, files, shell
# commands, name resolution and queues, each with the calls every Ruby programmer
# knows, and a table of their finishing times.
#
#   outcome = Demo::Everything.new(back_end, screen).run
#   outcome.total, outcome.sum      # => 1.02, 6.38
require "neverblock"
require "open3"
require "socket"
require_relative "job"

module Demo
  class Everything
    # total: wall seconds for all; sum: of the seconds of each job; threads: Ruby threads
    # the jobs ran on; latest: seconds by which a task that wakes every 10 ms was
    # late at worst; jobs: [Job]
    Outcome = Struct.new(:total, :sum, :threads, :latest, :jobs)

    TICK = 0.01 # seconds
    TICKS_A_PICTURE = 5

    # @param back_end [BackEnd]
    # @param screen [Screen]
    def initialize(back_end, screen)
      @back_end = back_end
      @screen = screen
      @unit = back_end.delay # all waits are parts of it
      @threads = {}
      @latest = 0.0
    end

    # @return [Outcome]
    def run
      @started = now
      jobs = http_jobs + file_jobs + shell_jobs + name_jobs + queue_jobs
      NeverBlock.run do |scope|
        ticker = scope.spawn(name: "ticker") { tick(jobs) }
        jobs.map { |job| scope.spawn(name: job.label) { work(job) } }.each(&:join)
        ticker.cancel
      end
      draw(jobs)
      @screen.picture_done
      Outcome.new(now - @started, jobs.sum(&:seconds), @threads.size, @latest, jobs)
    end

    private

    def work(job)
      @threads[Thread.current] = true
      job.call(@started)
      @screen.puts(job.line) unless @screen.live?
    end

    # Wakes a hundred times a second, which it can only as long as nothing blocks.
    def tick(jobs)
      (1..).each do |ticks|
        due = now + TICK
        sleep TICK
        @latest = [@latest, now - due].max
        draw(jobs) if ticks % TICKS_A_PICTURE == 0
      end
    end

    def draw(jobs)
      @screen.picture(jobs.map(&:line)) if @screen.live?
    end

    def http_jobs
      [1.0, 0.6, 0.3].map do |part|
        target = "/page?wait=#{part * @unit}"
        Job.new("HTTP request", "Net::HTTP.get, #{seconds(part)}", "you asked for #{target}") do
          Net::HTTP.get(@back_end.uri(target))
        end
      end
    end

    def file_jobs
      paths = Dir[File.join(__dir__, "*.rb")]
      [
        Job.new("files read", "File.read, #{paths.size} files", paths.sum { |path| File.size(path) }) do
          paths.sum { |path| File.read(path).bytesize }
        end,
        Job.new("file copied", "IO.copy_stream to /dev/null", File.size(__FILE__)) { IO.copy_stream(__FILE__, File::NULL) }
      ]
    end

    def shell_jobs
      [
        Job.new("shell command", "`sleep`, #{seconds(0.8)}", "slept\n") { `sleep #{0.8 * @unit}; echo slept` },
        Job.new("shell command", "system, #{seconds(0.5)}", true) { system("sleep", (0.5 * @unit).to_s) },
        Job.new("shell pipeline", "Open3.capture2, sort | uniq", "a\nb\n") do
          Open3.capture2("sort | uniq", stdin_data: "b\na\nb\n").first
        end
      ]
    end

    def name_jobs
      [Job.new("name resolved", "Addrinfo.getaddrinfo localhost", true) do
        Addrinfo.getaddrinfo("localhost", 80, nil, :STREAM).all? { |address| address.ipv4_loopback? || address.ipv6_loopback? }
      end]
    end

    def queue_jobs
      queue = Thread::Queue.new
      [
        Job.new("queue consumer", "Queue#pop, three times", [1, 2, 3]) { Array.new(3) { queue.pop } },
        Job.new("queue producer", "Queue#push each #{seconds(0.25)}", 3) do
          3.times { |number| sleep(0.25 * @unit) && queue.push(number + 1) }
        end
      ]
    end

    def seconds(part) = format("%.3g s", part * @unit)

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
