# frozen_string_literal: true

require "etc"
require "rbconfig"
require "socket"
require "tmpdir"
require_relative "clock"
require_relative "limit"

module NeverBlockTest
  # A program that tests need, such as a database or a proxy, in a folder of its own. It ends when it is stopped, and
  # with the process that started it, even if that is killed; the folder is removed with it.
  #
  #   Peer.missing("memcached")      # => nil, or why it can't be used
  #   peer = Peer.start { |folder| ["memcached", "-s", "#{folder}/socket"] }
  #   peer.until_ready { Peer.accepts?("#{peer.folder}/socket") }
  #   peer.stop
  class Peer
    include Clock

    GUARD = File.join(__dir__, "peer", "guard.rb")

    # Debian keeps root's programs in the last three.
    PLACES = [*ENV.fetch("PATH", "").split(File::PATH_SEPARATOR), "/usr/local/sbin", "/usr/sbin", "/sbin"].freeze

    # @param name [String]
    # @return [String, nil] its path
    def self.find(name) = PLACES.map { |place| File.join(place, name) }.find { |path| File.executable?(path) && File.file?(path) }

    # @param name [String] of a program
    # @return [String, nil] why it can't be used
    def self.missing(name)
      "#{name} is not installed (bin/setup installs it as root on Debian)" unless find(name)
    end

    # Below the kernel's ephemeral ports (ip(7), ip_local_port_range): no client connection of another test takes one of
    # these between the search and the server's start.
    PORTS = 10_000...32_000

    # A lock for each port that is given out, held until this process ends: no other test process gets that port.
    RESERVED = [] # standard:disable Style/MutableConstant

    # @return [Integer] a free port of 127.0.0.1, reserved for this process until it ends
    def self.free_port
      loop do
        port = Random.new.rand(PORTS)
        TCPServer.open("127.0.0.1", port).close
        RESERVED << UNIXServer.new("\0neverblock test port #{port}")
        return port
      rescue Errno::EADDRINUSE
        next
      end
    end

    # @param port [Integer]
    # @return [Boolean] whether a server listens there
    def self.listens?(port)
      TCPSocket.new("127.0.0.1", port).close
      true
    rescue Errno::ECONNREFUSED
      false
    end

    # @param path [String] of a unix socket; its file exists before the server listens
    # @return [Boolean]
    def self.accepts?(path)
      UNIXSocket.open(path) { true }
    rescue Errno::ENOENT, Errno::ECONNREFUSED
      false
    end

    # @param signal [String] that ends it
    # @param user [String, nil] the user to run the program as, if this process is root's
    # @yieldparam folder [String] its own, still empty; short enough for unix sockets
    # @yieldreturn [Array<String>] the command
    # @return [Peer]
    def self.start(signal: "TERM", user: nil)
      user = nil unless Process.uid.zero?
      folder = Dir.mktmpdir("nb", (Dir.tmpdir.bytesize < 50) ? nil : "/tmp")
      command = yield folder
      File.chown(Etc.getpwnam(user).uid, Etc.getpwnam(user).gid, folder) if user
      new(folder, [signal, user.to_s, *command])
    end

    # @return [String]
    attr_reader :folder

    # @api private
    def initialize(folder, arguments)
      @folder = folder
      input, @lifeline = IO.pipe
      @guard = Process.spawn({"RUBYOPT" => nil}, RbConfig.ruby, "--disable-gems", GUARD, folder, *arguments, in: input, pgroup: true)
      input.close
    end

    # @return [String] its output so far
    def log = File.exist?("#{@folder}/log") ? File.read("#{@folder}/log") : ""

    # Waits until the block is true.
    # @return [self]
    # @raise [RuntimeError] if that takes too long, with the program's output; the program is stopped first
    def until_ready
      deadline = now + LIMIT
      until yield
        if File.exist?("#{@folder}/ended") || now > deadline
          said = log
          stop
          raise "it did not start: #{said.lines.last&.chomp}\n#{said}"
        end
        sleep 0.01 # real: the program starts
      end
      self
    end

    # @return [void]
    def stop
      return if @lifeline.closed?
      @lifeline.close
      Process.wait(@guard)
    end
  end
end
