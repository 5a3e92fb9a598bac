# frozen_string_literal: true

# The server that the long tests watch: a program that serves until its standard input ends, or TERM comes.
#
#   ruby -Ilib test/support/long/subject.rb                         # prints the port
#   ruby -Ilib test/support/long/subject.rb '{"queue_limit":20000}'   # with other directives
#
# Its app has every kind of response; /numbers collects garbage and reports the resources of the process.
require "json"
require "neverblock/server"

module NeverBlockTest
  # The app.
  class Subject
    LIMITS = {
      max_in_flight: 64, queue_limit: 64, queue_max_wait: 0.5, max_connections: 19_000, max_streams: 100, head_timeout: 1,
      body_timeout: 1, idle_timeout: 600, write_timeout: 2, linger_timeout: 0.2, max_body_size: 400_000, body_memory: 20_000,
      request_body: :stream, request_body_path: "/stream", cancel_on_disconnect: true, access_log: :json, access_log_to: File::NULL,
      error_log: File::NULL
    }.freeze
    BIG = ("0123456789abcdef" * 65_536).freeze
    PLAIN = {"content-type" => "text/plain"}.freeze

    # A file's content as a body.
    OwnFile = Struct.new(:to_path) do
      def each = yield(File.binread(to_path))
    end

    # @param directives [Hash{Symbol=>Object}]
    def run(directives)
      @server = NeverBlock::Server.new(self, bind: "tcp://127.0.0.1:0", **LIMITS, **directives)
      @server.start
      $stdout.puts(@server.addresses.first[/\d+\z/])
      $stdout.flush
      trap(:TERM) { @ends = true }
      nil until @ends || starter_gone?
      @server.stop(timeout: 5)
    end

    def call(env)
      path = env["PATH_INFO"].delete_prefix("/")
      %w[numbers hello read stream wait each pour calls hijack big file fail fail_late leave].include?(path) ? send(path, env) : [404, PLAIN.dup, []]
    end

    private

    def starter_gone? = $stdin.wait_readable(0.5) && $stdin.read_nonblock(1, exception: false).nil?

    def hello(_env) = [200, PLAIN.dup, ["hello"]]

    def read(env) = [200, PLAIN.dup, [env["rack.input"].read.to_s.bytesize.to_s]]

    def stream(env)
      bytes = 0
      while (piece = env["rack.input"].read(10_000))
        bytes += piece.bytesize
      end
      [200, PLAIN.dup, [bytes.to_s]]
    end

    # real: the client's process may leave now
    def wait(_env) = sleep(0.002 + rand / 50) && [200, PLAIN.dup, ["waited"]]

    # real: the client's process reads in between
    def each(_env) = [200, PLAIN.dup, Enumerator.new { |out| 6.times { |number| out << ("x" * rand(3_000)) && (sleep(0.001) if number.odd?) } }]

    def pour(_env) = [200, PLAIN.dup, Enumerator.new { |out| loop { out << BIG } }]

    def calls(_env) = [200, PLAIN.dup, ->(stream) { 3.times { stream << ("y" * 100) && stream.flush } }]

    def hijack(env)
      io = env["rack.hijack"].call
      io.write("HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 8\r\nConnection: close\r\n\r\nhijacked")
      [-1, {}, []]
    ensure
      io&.close
    end

    def big(_env) = [200, PLAIN.dup, [BIG]]

    def file(_env) = [200, PLAIN.dup, OwnFile.new(__FILE__)]

    def fail(_env) = raise("as asked")

    def fail_late(_env) = [200, PLAIN.dup, Enumerator.new { |out| out << "z" * 20_000 && raise("as asked") }]

    # State that must not reach the next request.
    def leave(_env)
      return [500, PLAIN.dup, ["another request's"]] if Thread.current[:left] || Fiber[:left]
      Thread.current[:left] = Fiber[:left] = "x" * 1_000
      [204, {}, []]
    end

    # Kinds of the open descriptors, without the inodes of sockets and the like.
    def descriptors
      Dir.glob("/proc/self/fd/*").filter_map { |path| File.readlink(path).sub(/\[\d+\]/, "") if File.symlink?(path) }.tally
    rescue Errno::ENOENT
      retry # a descriptor was closed between the two looks
    end

    def numbers(_env)
      2.times { GC.start }
      memory = File.read("/proc/self/smaps_rollup").scan(/^(Rss|Pss|Private_Dirty):\s+(\d+) kB/).to_h { |name, kilobytes| [name.downcase, kilobytes.to_i * 1024] }
      counts = ObjectSpace.count_objects
      body = {**memory, objects: counts[:TOTAL] - counts[:FREE], descriptors: descriptors, threads: Thread.list.size,
                        collections: GC.count, server: @server.stats}
      [200, PLAIN.dup, [JSON.generate(body)]]
    end
  end
end

NeverBlockTest::Subject.new.run(JSON.parse(ARGV[0] || "{}", symbolize_names: true)) if $PROGRAM_NAME == __FILE__
