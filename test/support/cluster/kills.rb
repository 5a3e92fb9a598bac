# frozen_string_literal: true

require_relative "../accounting"
require_relative "../serve_process"
require_relative "releases"

module NeverBlockTest
  # Kills workers under load. A worker is stopped before the kill, so that its accepted connections can be read from the
  # kernel's tables. Requests may fail on those connections only.
  #
  #   kills = Kills.new(count: 3).call
  #   kills.lost      # => 14, on connections that the killed workers had accepted
  #   kills.strays    # => [], on other connections
  class Kills
    include Clock

    WORKERS = 2
    BETWEEN = 200 # answers between two kills, so that the new worker gets its share

    # Matches a row of the kernel's table: the peer's port and the socket's inode. Rows in TIME_WAIT, of which there are
    # thousands, don't match.
    ROW = /^ *\d+: \h+:\h+ \h+:(\h+) (?!06)\h\h \S+ \S+ \S+ +\d+ +\d+ (\d+) /

    # A killed worker: its process, the time, and the ports of its clients.
    Kill = Struct.new(:pid, :at, :ports)

    # @return [Array<Integer>] the peers' ports of a process's connections
    def self.clients(pid)
      inodes = Dir["/proc/#{pid}/fd/*"].filter_map { |path| File.readlink(path)[/socket:\[(\d+)\]/, 1] rescue nil } # standard:disable Style/RescueModifier
      File.read("/proc/net/tcp").scan(ROW).filter_map { |port, inode| port.hex if inodes.include?(inode) } - [0]
    end

    # @return [Array<Accounting::Loss>] losses on connections that no killed worker had accepted
    attr_reader :strays

    # @return [Integer]
    attr_reader :sent, :answered, :lost, :connections

    # @return [Float]
    attr_reader :seconds

    # @param count [Integer]
    # @param releases [#new] the kind of app
    # @param pause [Numeric] seconds between a client's requests; with 0 the clients use up the processors
    def initialize(count:, releases: Releases, pause: 0.01)
      @count = count
      @kind = releases
      @pause = pause
    end

    # @return [self]
    # @raise [Minitest::Assertion] if a condition isn't met in time
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

    # A loss belongs to an earlier kill. On a busy machine, the client may notice it only after the next kill.
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
