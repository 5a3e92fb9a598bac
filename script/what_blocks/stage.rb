# frozen_string_literal: true

require "io/nonblock"
require "openssl"
require "socket"
require "tmpdir"

module WhatBlocks
  # Where a row's body runs: `measure` and the things that calls wait for. Each
  # of them is slow for WAIT seconds, and served by a thread or process outside
  # the loop.
  #
  #   reader = fed("a\n")
  #   measure("a\n") { reader.gets }
  #
  # The WAIT seconds begin with the measured call, however long a slow machine
  # has taken to prepare it. Threads learn of the beginning by `pause`, processes
  # by the end of the pipe that `gate` names.
  class Stage
    # Seconds that everything outside takes to answer.
    WAIT = 0.2

    # The gate's descriptor in other processes.
    GATE = 9

    # A call that came back with something else than it should.
    class WrongResult < StandardError; end

    # @param probe [Probe]
    # @param offload [Boolean] whether the call is made by NeverBlock.offload
    # @param scale [Numeric] the part of a usual amount of work that there is to do
    def initialize(probe, offload: false, scale: 1)
      @probe = probe
      @offload = offload
      @scale = scale
      @begun = Queue.new
      @gate, @opener = IO.pipe
      inherited(@gate)
    end

    # @param amount [Integer] of work that takes a usual machine about a second
    # @return [Integer] the amount that there is to do
    def size(amount) = (amount * @scale).ceil

    # Makes the call that the row is about.
    # @param expected [#===] what it has to return
    # @param given [Array] made beforehand and handed to the block
    # @return [Object] what it returned
    def measure(expected, *given)
      @probe.on_start { begin_waits }
      result = @probe.watch { @offload ? NeverBlock.offload { yield(*given) } : yield(*given) }
      return result if expected === result
      raise WrongResult, "#{result.inspect[0, 200]} instead of #{expected.inspect[0, 200]}"
    end

    # @return [StandardError, nil] what the block raised
    def raised
      yield
      nil
    rescue => error
      error
    end

    # Waits until the measured call has begun, and some seconds more.
    # @return [Integer] a true value
    def pause(seconds = WAIT)
      @begun.pop
      sleep seconds
    end

    # Runs the block in a thread, WAIT seconds after the measured call has begun.
    def later
      Thread.new do
        pause
        yield
      end
    end

    # The gate's options for spawn and IO.popen.
    def gate = {GATE => @gate}

    # @return [String] a command for a shell that has the gate: goes on WAIT seconds after the measured call has begun
    def shell_pause = "read line <&#{GATE}; sleep #{WAIT}"

    # @param descriptor [Integer] the gate's, here in the same process
    # @return [String] the same in Ruby
    def ruby_pause(descriptor = @gate.fileno) = "IO.for_fd(#{descriptor}, autoclose: false).read; sleep #{WAIT}"

    # @return [Integer] the number of a process that ends WAIT seconds after the measured call has begun
    def lasting(**options) = spawn(shell_pause, **gate, **options)

    # @return [Ractor] ends likewise, with the value 1
    def lasting_ractor
      Ractor.new(@gate.fileno, WAIT) do |descriptor, seconds|
        IO.for_fd(descriptor, autoclose: false).read
        sleep(seconds) && 1
      end
    end

    # @return [IO] a pipe's reading end that gets the text, then its end, later
    def fed(text)
      reader, writer = IO.pipe
      later do
        writer << text
        writer.close
      end
      reader
    end

    # @return [IO] a pipe's writing end that is full, and emptied later by a
    #   process, since some of the calls let no thread of this one run
    def clogged_pipe
      reader, writer = IO.pipe
      clog(writer)
      spawn("#{shell_pause}; exec cat", in: reader, out: File::NULL, **gate)
      writer
    end

    # Fills whatever is behind the stream.
    def clog(io)
      filler = "x" * 65_536
      nil until io.write_nonblock(filler, exception: false) == :wait_writable
    end

    # @return [Mutex, Monitor] the lock, which a thread holds for some time
    def held(lock, enter, leave, seconds = WAIT)
      taken = Queue.new
      Thread.new do
        lock.public_send(enter)
        taken << true
        pause seconds
        lock.public_send(leave)
      end
      taken.pop
      lock
    end

    # Makes the stream what a process inherits: a descriptor without O_NONBLOCK.
    def inherited(io)
      io.nonblock = false
      io
    end

    # From now on the resolver takes its time to name an address.
    def slow_reverse_lookups = ENV["NEVERBLOCK_TEST_NAMEINFO"] = (WAIT * 1000).round.to_s

    # @return [Array(Socket, Socket)] a connected pair over TCP
    def tcp_pair
      server = TCPServer.new("127.0.0.1", 0)
      client = TCPSocket.new("127.0.0.1", server.addr[1])
      [client, server.accept]
    end

    # Accepts connections in a thread and hands each to the block.
    # @return [Integer] the port
    def serving
      server = TCPServer.new("127.0.0.1", 0)
      Thread.new do
        loop { yield server.accept }
      end
      server.addr[1]
    end

    # @return [Integer] the port of an HTTP server that answers "slow" after WAIT
    def slow_http(tls: nil)
      serving do |socket|
        socket = OpenSSL::SSL::SSLSocket.new(socket, tls).tap(&:accept) if tls
        nil until socket.gets == "\r\n"
        sleep WAIT
        socket.write("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nslow")
        socket.close
      end
    end

    # @return [Integer] the port of a server whose queue has no room: connecting
    #   takes until the kernel asks again, a second later
    def crowded_port
      server = TCPServer.new("127.0.0.1", 0)
      server.listen(0)
      waiting = Array.new(3) do
        Socket.new(:INET, :STREAM).tap { |socket| socket.connect_nonblock(server.local_address, exception: false) }
      end
      later do
        loop { waiting << server.accept }
      end
      server.addr[1]
    end

    # @return [OpenSSL::SSL::SSLContext] a server's, with a certificate made now
    def tls_server
      OpenSSL::SSL::SSLContext.new.tap { |context| context.add_certificate(*certificate) }
    end

    # @return [OpenSSL::SSL::SSLSocket] a client that has not shaken hands
    def tls_client(socket)
      OpenSSL::SSL::SSLSocket.new(socket, OpenSSL::SSL::SSLContext.new).tap { |tls| tls.sync_close = true }
    end

    # @return [OpenSSL::SSL::SSLSocket] a client connected to a server that the
    #   block plays, in a thread
    def tls_pair
      context = tls_server
      ours, theirs = UNIXSocket.pair
      Thread.new { yield OpenSSL::SSL::SSLSocket.new(theirs, context).tap(&:accept) }
      tls_client(ours).tap(&:connect)
    end

    # @return [String] the path of a regular file with the text
    def file(text = "content\n")
      File.join(folder, "file").tap { |path| File.write(path, text) }
    end

    # @return [String] the path of a named pipe
    def fifo
      File.join(folder, "fifo").tap { |path| File.mkfifo(path) }
    end

    # @return [String] an empty folder; the runner removes it
    def folder = Dir.mktmpdir("what-blocks")

    # A Ruby process that runs the code, and has when this returns got as far as
    # to print a line.
    def ruby(code)
      IO.popen([RbConfig.ruby, "--disable-gems", "-e", "$stdout.sync = true; #{code}"], **gate).tap(&:gets)
    end

    private

    # Closing parks no fiber here: the time of the call has begun.
    def begin_waits
      @begun.close
      Fiber.blocking { @opener.close }
    end

    def certificate
      key = OpenSSL::PKey::EC.generate("prime256v1")
      certificate = OpenSSL::X509::Certificate.new
      certificate.subject = certificate.issuer = OpenSSL::X509::Name.parse("/CN=localhost")
      certificate.public_key = key
      certificate.serial = 1
      certificate.not_before = Time.now - 60
      certificate.not_after = Time.now + 3600
      [certificate.sign(key, "SHA256"), key]
    end
  end
end
