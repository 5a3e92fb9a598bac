# frozen_string_literal: true

require "fileutils"
require "socket"
require "tmpdir"
require_relative "../accounting"
require_relative "../operated_app"
require_relative "../peer"
require_relative "../serve_process"
require_relative "kills"

module NeverBlockTest
  # Kills random processes of a cluster at random moments, under load, often while an app is being reloaded. Errors are
  # raised or reported.
  #
  #   chaos = Chaos.new(kills: 20, seed: 7).call
  #   chaos.killed      # => {worker: 9, template: 6, supervisor: 3, children: 2}
  #   chaos.slowest     # => 0.71, seconds beyond the load time until a request was answered again
  #   chaos.strays      # => [], requests that were lost on connections that no killed process had accepted
  #
  # A killed supervisor is an outage: connections that were not accepted yet are refused. The server is started again in
  # the same folder and on the same port, which must be free.
  class Chaos
    include Clock

    WORKERS = 2
    # Process kinds, by weight; children: all but the supervisor.
    VICTIMS = [*[:worker] * 3, *[:template] * 3, :sidecar, :children, *[:supervisor] * 2].freeze
    # The signal that the supervisor gets a moment before the kill, by weight.
    SIGNALS = [nil, nil, nil, "USR1", "USR1", "USR2", "HUP"].freeze
    LATEST = 0.5 # seconds between the signal and the kill
    BETWEEN = 20 # answers between two kills
    FILES = %w[access.log config config.ru err out].freeze # files that may stay in the folder

    # A killed process, or one that ended with it: the time, and the ports of its clients.
    Kill = Struct.new(:at, :ports)

    # @return [Hash{Symbol=>Integer}]
    attr_reader :killed

    # @return [Float] seconds
    attr_reader :slowest, :seconds, :load_time

    # @return [Array<Accounting::Loss>]
    attr_reader :strays

    # @return [Integer]
    attr_reader :sent, :answered, :lost, :seed

    # @param kills [Integer]
    # @param seed [Integer] decides what is killed, and when
    def initialize(kills:, seed: Random.new_seed)
      @count = kills
      @seed = seed
      @random = Random.new(seed)
      @killed = Hash.new(0)
      @kills, @outages = [], []
      @slowest = 0
    end

    # @return [self]
    # @raise [Minitest::Assertion] if a condition isn't met in time
    def call
      began = now
      Dir.mktmpdir("nb") do |folder|
        @folder = folder
        @port = Peer.free_port
        start
        @loads = {"/" => 4, "/sleep?0.1" => 4}.map { |path, clients| Accounting.new(@port, clients:, path:, pause: 0.02).start }
        @count.times { strike }
        @loads.each(&:stop)
        finish
      end
      @seconds = now - began
      sum_up
      self
    end

    private

    def start
      began = now
      config = "workers #{WORKERS}\nbind 'tcp://127.0.0.1:#{@port}'\nbind %(unix://\#{Dir.pwd}/app.sock)\npid_file 'server.pid'\ncontrol 'control.sock'\nsidecar 'sleep 12345'\n" \
        "access_log :common, to: 'access.log'\nshutdown_timeout 5\n"
      @served = ServeProcess.start(@folder, OperatedApp.text, config:)
      @served.addresses
      @load_time = now - began
    end

    def strike
      before = answered_so_far
      await("#{BETWEEN} answers") { answered_so_far >= before + BETWEEN }
      victim, signal = VICTIMS.sample(random: @random), SIGNALS.sample(random: @random)
      @served.signal(signal) if signal
      sleep @random.rand(LATEST) # real: the processes are at some moment of what the signal begins
      at = (victim == :supervisor) ? kill_supervisor : kill_children(victim)
      await("an answer after the end of: #{victim}, #{signal}, seed #{@seed}") { answers? }
      @slowest = [@slowest, now - at - @load_time].max
      @killed[victim] += 1
      await("the end of all zombies") { processes.none? { |process| process.state == "Z" && ours.include?(process.parent) } }
    end

    # @return [Float] the time of the kill
    def kill_children(kind)
      victims = await("a #{kind}") { find(kind).then { |found| found if found.any? } }
      at = now
      victims.each { |pid| signal(:STOP, pid) }
      await("their standstill") { victims.all? { |pid| %w[T Z X].include?(process(pid)&.state || "X") } }
      victims.each { |pid| @kills << Kill.new(at, Kills.clients(pid)) }
      victims.each { |pid| signal(:KILL, pid) }
      at
    end

    def signal(name, pid)
      Process.kill(name, pid)
    rescue Errno::ESRCH
      nil # it has just ended
    end

    # @return [Array<Integer>]
    def find(kind)
      case kind
      when :worker then titled(/\Aneverblock \S+: worker \d/).sample(1, random: @random)
      when :template then titled(/\Aneverblock \S+: template/).sample(1, random: @random)
      when :sidecar then titled(/\Asleep\0/)
      when :children then ours - [@served.pid]
      end
    end

    # Requests lost here were not accepted, or were sent while no process listened.
    def kill_supervisor
      at = now
      @served.signal(:KILL)
      @served.wait
      await("the end of all its children") { processes.none? { |process| process.group == @served.pid && process.state != "Z" } }
      await("the port") { free? }
      ended = now
      start
      @outages << (at..now)
      @slowest = [@slowest, ended - at].max
      now
    end

    # A program that was replaced at the last moment may have no handlers yet: the signal itself ends it.
    def finish
      @served.signal(:TERM)
      status = @served.wait
      raise Minitest::Assertion, "it ended with #{status}:\n#{@served.errors}" unless status.success? || status.termsig == Signal.list["TERM"]
      await("the end of all") { processes.none? { |process| process.group == @served.pid && process.state != "Z" } }
      left = Dir.children(@folder) - FILES
      raise Minitest::Assertion, "files that were left: #{left}" if left.any?
    ensure
      @served.kill
    end

    def sum_up
      lost = @loads.flat_map(&:lost)
      @strays = lost.reject do |loss|
        @outages.any? { |outage| outage.cover?(loss.at) } || @kills.any? { |kill| kill.at <= loss.at && kill.ports.include?(loss.port) }
      end
      @lost = lost.size
      @sent = @loads.sum(&:sent)
      @answered = answered_so_far
    end

    def answered_so_far = @loads.sum(&:answered)

    def answers?
      socket = TCPSocket.new("127.0.0.1", @port)
      socket.timeout = 1
      socket << "GET / HTTP/1.0\r\n\r\n"
      socket.read.start_with?("HTTP/1.1 200")
    rescue SystemCallError, IO::TimeoutError
      false
    ensure
      socket&.close
    end

    def free?
      TCPSocket.new("127.0.0.1", @port).close
      false
    rescue Errno::ECONNREFUSED
      true
    end

    # A process of this machine.
    Row = Struct.new(:pid, :state, :parent, :group)

    # @return [Array<Row>]
    def processes = Dir.glob("/proc/[0-9]*").filter_map { |path| process(File.basename(path)) }

    def process(pid)
      state, parent, group = File.read("/proc/#{pid}/stat").split(") ").last.split
      Row.new(pid.to_i, state, parent.to_i, group.to_i)
    rescue SystemCallError
      nil # it has just ended
    end

    # Includes orphans of an ended template process.
    def ours = processes.select { |process| process.group == @served.pid }.map(&:pid)

    def titled(pattern)
      ours.select do |pid|
        File.read("/proc/#{pid}/cmdline").match?(pattern)
      rescue SystemCallError
        false
      end
    end

    def await(what, &) = @served.until_true(what, ended: true, &)
  end
end
