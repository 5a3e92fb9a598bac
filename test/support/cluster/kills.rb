# frozen_string_literal: true

require_relative "../accounting"
require_relative "../serve_process"
require_relative "releases"

module NeverBlockTest
  # Workers that are killed under load. Before it is killed a worker is stopped, so that what it has accepted can be read
  # from the kernel's tables: a request may fail on those connections and on no other.
  #
  #   kills = Kills.new(count: 3).call
  #   kills.lost      # => 14, on connections that the killed workers had accepted
  #   kills.strays    # => [], on others
  class Kills
    include Clock

    WORKERS = 2
    BETWEEN = 200 # answers between two kills, so that the new worker has its share

    # Of the kernel's table: the other side's port, and the socket's number; not of those that only wait for their time to pass,
    # of which there are thousands.
    ROW = /^ *\d+: \h+:\h+ \h+:(\h+) (?!06)\h\h \S+ \S+ \S+ +\d+ +\d+ (\d+) /

    # A killed worker: its process, when that was, and the ports of its clients.
    Kill = Struct.new(:pid, :at, :ports)

    # @return [Array<Integer>] the other sides' ports of the connections that a process has
    def self.clients(pid)
      inodes = Dir["/proc/#{pid}/fd/*"].filter_map { |path| File.readlink(path)[/socket:\[(\d+)\]/, 1] rescue nil } # standard:disable Style/RescueModifier
      File.read("/proc/net/tcp").scan(ROW).filter_map { |port, inode| port.hex if inodes.include?(inode) } - [0]
    end

    # @return [Array<Accounting::Loss>] what a killed worker had not accepted
    attr_reader :strays

    # @return [Integer]
    attr_reader :sent, :answered, :lost, :connections

    # @return [Float]
    attr_reader :seconds

    # @param count [Integer]
    # @param releases [#new] of what kind of app
    # @param pause [Numeric] seconds between a client's requests; with 0 the clients take the processors
    def initialize(count:, releases: Releases, pause: 0.01)
      @count = count
      @kind = releases
      @pause = pause
    end

    # @return [self]
    # @raise [Minitest::Assertion] if something does not come to pass
    def call
      began = now
      ServeProcess.open(->(folder) { @kind.new(folder, workers: WORKERS).publish("release") }, **@kind.process) do |served|
        @served = served
        @loads = {"/" => 4, "/sleep?0.1" => 8}.map { |path, clients| Accounting.new(served.port, clients:, path: "#{@kind.path}#{path}", pause: @pause).start }
        kills = Array.new(@count) { kill }
        @loads.each(&:stop)
        sum_up(kills)
      end
      @seconds = now - began
      self
    end

    private

    def kill
      answered = count(:answered)
      @served.until_true("all workers, and answers of theirs") { count(:answered) >= answered + BETWEEN && @served.workers.size == WORKERS }
      victim = @served.workers.max_by { |pid| Kills.clients(pid).size }
      at = now
      Process.kill(:STOP, victim)
      @served.until_true("its standstill") { File.read("/proc/#{victim}/stat")[/\) (\w)/, 1] == "T" }
      ports = Kills.clients(victim)
      Process.kill(:KILL, victim)
      @served.until_true("another worker") { @served.errors.include?("[#{victim}] ended") }
      Kill.new(victim, at, ports)
    end

    # A loss is that of a kill before it. On a busy machine a client learns of it when another worker has been killed already.
    def sum_up(kills)
      lost = @loads.flat_map(&:lost)
      @strays = lost.reject { |loss| kills.any? { |kill| kill.at <= loss.at && kill.ports.include?(loss.port) } }
      @lost = lost.size
      @connections = kills.sum { |kill| kill.ports.size }
      @sent, @answered = %i[sent answered].map { |figure| count(figure) }
    end

    def count(figure) = @loads.sum(&figure)
  end
end
