# frozen_string_literal: true

require "fileutils"
require "neverblock"
require "rbconfig"
require "socket"
require "timeout"
require "tmpdir"
require_relative "limit"

module NeverBlockTest
  # A `neverblock serve` in a process and a folder of its own, as users start it.
  #
  #   ServeProcess.open("run ->(_env) { [200, {}, ['hi']] }") do |served|
  #     served.get("/")                # => "HTTP/1.1 200 OK\r\n…"
  #   served.stop                    # sends TERM and waits for its end
  #     served.errors                  # its standard error
  #   end
  class ServeProcess
    RACK = Gem.loaded_specs["rack"]&.full_require_paths
    BARE = {"RUBYOPT" => ENV["NEVERBLOCK_TEST_RUBYOPT"]}.freeze # none, except for `rake coverage`
    LIBRARY = [*ENV["NEVERBLOCK_TEST_LIBRARY"], File.join(ROOT, "lib")].freeze

    # @param rackup [String, #call] the text of config.ru; or a block that prepares the folder and returns the start
    #   directory in it
    # @param arguments [Array<String>] after "serve"; a free port is added if there's no address
    # @param config [String, nil] the text of config/neverblock.rb
    # @param environment [Hash{String=>String,nil}]
    # @param command [Array<String>, nil] started in place of exe/neverblock serve
    # @param ruby [Array<String>] options for Ruby
    # @param library [Array<String>] folders to load our library from
    # @param sockets [Array<BasicSocket>] passed as systemd does
    # @param files [Hash{String=>String,nil}] further files, by path
    # @param gems [Boolean] whether the app may load gems of the bundle; without, it has Rack alone, and Ruby starts in
    #   a fifth of the time
    # @yieldparam served [ServeProcess]
    # @return [Object] the block's value
    def self.open(rackup, *arguments, config: nil, environment: {}, command: nil, ruby: [], library: LIBRARY, sockets: [], files: {}, gems: !(String === rackup && command.nil?))
      environment, ruby, library = {**BARE, **environment}, ["--disable=gems", "-rrbconfig", *ruby], [*library, *RACK] unless gems
      Dir.mktmpdir("nb") do |folder|
        directory = rackup.respond_to?(:call) ? rackup.call(folder) : folder
        write(folder, "config.ru" => (rackup if String === rackup), "config/neverblock.rb" => config, **files)
        served = new(folder, directory, arguments, environment, command, [*ruby, *library.flat_map { |path| ["-I", path] }], sockets)
        begin
          yield served
        ensure
          served.kill
        end
      end
    end

    # Starts one as {open} does, in a folder that stays; the app has Rack alone.
    # @return [ServeProcess] for the caller to kill
    def self.start(folder, rackup, config:)
      write(folder, "config.ru" => rackup, "config/neverblock.rb" => config)
      new(folder, folder, [], BARE, nil, ["--disable=gems", "-rrbconfig", *[*LIBRARY, *RACK].flat_map { |path| ["-I", path] }], [])
    end

    # @param files [Hash{String=>String,nil}] by path; nil: no file. A text that begins with #! becomes executable
    def self.write(folder, files)
      files.compact.each do |name, text|
        path = File.join(folder, name)
        FileUtils.mkdir_p(File.dirname(path))
        File.write(path, text)
        File.chmod(0o755, path) if text.start_with?("#!")
      end
    end

    # @return [String] its working directory
    attr_reader :folder

    # @return [Integer]
    attr_reader :pid

    def initialize(folder, directory, arguments, environment, command, ruby, sockets)
      @folder = folder
      command ||= [File.join(ROOT, "exe", "neverblock"), "serve", *arguments]
      command = [RbConfig.ruby, "-w", *ruby, *command]
      descriptors = sockets.each_with_index.to_h { |socket, index| [3 + index, socket] }
      environment, command = {"LISTEN_FDS" => sockets.size.to_s, **environment}, [*activation(descriptors.keys), *command] if sockets.any?
      @pid = Process.spawn({"PWD" => directory, **environment}, *command, chdir: directory, in: File::NULL,
        out: "#{folder}/out", err: "#{folder}/err", pgroup: true, **descriptors)
    end

    # @return [String] its standard error so far
    def errors = File.read("#{@folder}/err")

    # @return [String] its standard output so far
    def output = File.read("#{@folder}/out")

    # Waits until it listens.
    # @return [Array<String>] URIs
    def addresses
      @addresses ||= until_true("the line that says where it listens") do
        found = errors[/info: NeverBlock \S+, .* at (.*)$/, 1]&.split(" and ")
        raise Minitest::Assertion, "it ended before it listened:\n#{errors}\n#{output}" unless found || running?
        found
      end
    end

    # @return [Integer] the first port
    def port = addresses.join(" ")[/http:\S+:(\d+)/, 1].to_i

    # @return [TCPSocket, UNIXSocket] a connection to its first address
    def connect
      addresses.first.start_with?("unix") ? UNIXSocket.new(addresses.first.delete_prefix("unix://")) : TCPSocket.new("127.0.0.1", port)
    end

    # Sends a request and reads until the server closes.
    # @return [String] the answer
    def get(path, **fields)
      Timeout.timeout(LIMIT) do
        socket = connect
        head = {Host: "example.org", Connection: "close", **fields}.map { |name, value| "#{name}: #{value}\r\n" }.join
        socket << "GET #{path} HTTP/1.1\r\n#{head}\r\n"
        socket.read
      ensure
        socket&.close
      end
    end

    # @return [String] the body of an answer
    def body(path) = get(path).split("\r\n\r\n", 2).last

    # Runs another command of ours, in the server's directory.
    # @param arguments [Array<String>] such as "status"
    # @return [String]
    def command(*arguments) = ServeProcess.command(@folder, *arguments)

    # The same, with its exit status.
    # @return [Array(String, Integer)]
    def order(*arguments) = [command(*arguments), $?.exitstatus] # of this thread

    # @param folder [String]
    # @return [String]
    def self.command(folder, *arguments)
      folders = [File.join(ROOT, "lib"), *RACK].flat_map { |path| ["-I", path] }
      IO.popen([BARE, RbConfig.ruby, "--disable=gems", "-rrbconfig", *folders, File.join(ROOT, "exe", "neverblock"), *arguments, chdir: folder, err: %i[child out]], &:read)
    end

    # @return [Array<Integer>] every process below the supervisor: templates and workers
    def children(of = @pid)
      below = Dir["/proc/[0-9]*/stat"].filter_map do |path|
        pid, rest = File.read(path).match(/\A(\d+) \(.*\) (.*)/m).captures
        pid.to_i if rest.split[1].to_i == of && rest[0] != "Z"
      rescue SystemCallError
        nil
      end
      below + below.flat_map { |pid| children(pid) }
    end

    # @return [Array<Integer>] workers that serve, or have served and not ended yet
    def workers
      children.select { |pid| File.read("/proc/#{pid}/cmdline").match?(/: worker \d/) }
    rescue SystemCallError
      retry # a process has just ended
    end

    # @return [void]
    def signal(name) = Process.kill(name, @pid)

    # @return [Process::Status] how it ended
    def wait
      @status ||= until_true("its end") { Process.wait2(@pid, Process::WNOHANG)&.last }
    end

    # Stops it.
    # @param name [Symbol] the signal to send
    # @return [void]
    # @raise [Minitest::Assertion] if its exit status isn't 0
    def stop(name = :TERM)
      signal(name)
      raise Minitest::Assertion, "it ended with #{wait}:\n#{errors}" unless wait.success?
    end

    # @return [Boolean]
    def running? = @status.nil? && (@status = Process.wait2(@pid, Process::WNOHANG)&.last).nil?

    # Kills it with all of its processes.
    # @return [void]
    def kill
      Process.kill(:KILL, -@pid)
    rescue Errno::ESRCH, Errno::EPERM
      nil # no process is left, or only ended ones
    ensure
      @status ||= Process.wait2(@pid).last
    end

    # A program that sets LISTEN_PID and becomes the server: its process ID is known only then.
    def activation(numbers)
      [RbConfig.ruby, "--disable=gems", "-e", "exec({'LISTEN_PID' => $$.to_s}, *ARGV, #{numbers.map { |number| "#{number} => #{number}" }.join(", ")})"]
    end
    private :activation

    # Waits for a condition; the failure has the server's output.
    # @return [Object] the block's value
    def until_true(what, ended: !@status.nil?)
      failed = -> { "#{what} did not come:\n#{errors}\n#{output}" }
      NeverBlockTest.wait_until(failed, pause: 0.01) do
        yield or (raise Minitest::Assertion, failed.call if @status && !ended)
      end
    end
  end
end
