# frozen_string_literal: true

require "etc"
require "shellwords"
require_relative "clock"
require_relative "peer"

module NeverBlockTest
  # A new and empty PostgreSQL for tests, which is removed afterwards, even if the process that started it is killed.
  # Every client may connect as its superuser, through a unix socket in `folder` or 127.0.0.1 at `port`.
  #
  #   reason = PostgresServer.missing and skip reason
  #   PostgresServer.open(max_connections: 50) do |postgres|
  #     PG.connect(postgres.url)
  #   end
  #
  #   postgres = PostgresServer.start     # … and
  #   postgres.restart(:immediate)        # its data are kept
  #   postgres.stop
  class PostgresServer
    include Clock

    PATIENCE = 10 # seconds for a fast shutdown

    # The newest release; Debian keeps them out of PATH, since several may be installed.
    FOLDER = Dir["/usr/lib/postgresql/*/bin"].max_by { |path| path[%r{postgresql/(\d+)}, 1].to_i } || Peer.find("initdb")&.then { |path| File.dirname(path) }

    # Speed before safety: its data need not survive a power cut.
    SETTINGS = {fsync: "off", synchronous_commit: "off", full_page_writes: "off", listen_addresses: "127.0.0.1"}.freeze

    USER = "postgres"

    # @return [String, nil] why PostgreSQL can't be used
    def self.missing
      "PostgreSQL is not installed (bin/setup installs it as root on Debian: postgresql)" unless FOLDER
    end

    # @param settings [Hash{Symbol=>Object}] as in postgresql.conf
    # @return [PostgresServer] a server that is ready
    # @raise [RuntimeError] if it doesn't start, with its output
    def self.start(**settings)
      raise missing if missing
      new({**SETTINGS, **settings})
    end

    # @param primary [PostgresServer]
    # @param settings [Hash{Symbol=>Object}] as in postgresql.conf
    # @return [PostgresServer] a hot standby of it, which {#promote} makes a primary
    def self.replica(primary, **settings) = new({**SETTINGS, **settings}, primary)

    # @yieldparam postgres [PostgresServer] that is stopped afterwards
    # @return [Object] the block's value
    def self.open(**settings)
      postgres = start(**settings)
      yield postgres
    ensure
      postgres&.stop
    end

    # PostgreSQL refuses to run as root.
    # @return [String] the user to run it as
    def self.account = (Etc::Passwd.any? { |account| account.name == USER }) ? USER : "nobody"

    # @return [Integer]
    attr_reader :port

    # @api private
    def initialize(settings, primary = nil)
      @port = Peer.free_port
      @peer = Peer.start(signal: "QUIT", user: self.class.account) { |folder| command(folder, settings, primary ? copy(folder, primary) : create(folder)) }
      @peer.until_ready { status == "ready" }
    end

    # @return [String] the folder of its socket, the `host` of libpq
    def folder = @peer.folder

    # @return [String] the path of its socket
    def socket = "#{folder}/.s.PGSQL.#{port}"

    # @return [String]
    def user = USER

    # @param database [String]
    # @return [String] for PG.connect, psql, and `url:` of Active Record
    def url(database = "postgres") = "postgresql:///#{database}?host=#{folder}&port=#{@port}&user=#{USER}"

    # @return [String] the path of a PostgreSQL program, such as "psql"
    def program(name) = File.join(FOLDER, name)

    # @return [String] psql's output, without headers or alignment
    # @raise [RuntimeError] if psql fails
    def query(sql, database: "postgres")
      output = IO.popen([program("psql"), "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql, url(database)], err: %i[child out], &:read)
      $?.success? ? output.chomp : raise(output)
    end

    # @return [void]
    def promote = query("select pg_promote()")

    # Makes the server unreachable while the block runs; open connections stay open.
    # @return [Object] the block's value
    def hidden
      File.rename(socket, "#{socket}.hidden")
      yield
    ensure
      File.rename("#{socket}.hidden", socket)
    end

    # @return [String] its output so far
    def log = @peer.log

    # Restarts it at the same port: with a fast shutdown, or an immediate one. A fast shutdown during the recovery from a
    # crash may not end (seen with PostgreSQL 15): an immediate one follows.
    # @param mode [:fast, :immediate]
    # @return [void] once it is ready
    def restart(mode = :fast)
      before = postmaster
      File.write("#{folder}/again", "")
      Process.kill({fast: :INT, immediate: :QUIT}.fetch(mode), before)
      hurry = now + PATIENCE
      @peer.until_ready do
        Process.kill(:QUIT, before) && (hurry = Float::INFINITY) if now > hurry && postmaster == before
        status == "ready" && postmaster != before
      end
    end

    # Shuts it down for good: its standbys get all committed data first.
    # @return [void] once it has ended
    # @raise [RuntimeError] if that takes longer than {LIMIT}
    def shut_down
      process = postmaster
      Process.kill(:INT, process)
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + LIMIT
      while postmaster == process
        raise "it did not end:\n#{log}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
        sleep 0.01 # real: the postmaster ends
      end
    end

    # @param name [Symbol] of a signal for all its processes: :STOP, :CONT
    # @return [void]
    def signal(name)
      children = Dir["/proc/[0-9]*/stat"].filter_map do |path|
        pid, parent = File.read(path).match(/\A(\d+) \(.*\) \S (\d+)/)&.captures&.map(&:to_i)
        pid if parent == postmaster
      rescue Errno::ENOENT, Errno::ESRCH
        nil # it has ended
      end
      [postmaster, *children].each { |pid| Process.kill(name, pid) }
    end

    # @return [Integer, nil] the process ID of its postmaster
    def postmaster = lines[0]&.to_i

    # @return [void]
    def stop = @peer.stop

    private

    def create(folder)
      [program("initdb"), "-D", "#{folder}/data", "-U", USER, "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", "--no-instructions"]
    end

    def copy(folder, primary)
      [program("pg_basebackup"), "-D", "#{folder}/data", "-d", primary.url, "--write-recovery-conf", "--checkpoint=fast", "--no-sync"]
    end

    def command(folder, settings, prepare)
      options = {**settings, unix_socket_directories: folder}.flat_map { |name, value| ["-c", "#{name}=#{value}"] }
      postgres = [program("postgres"), "-D", "#{folder}/data", "-p", @port.to_s, *options]
      ["sh", "-c", <<~SH]
        #{prepare.shelljoin} || exit
        trap 'stop=1; kill -QUIT "$pid"' QUIT
        while [ -z "$stop" ]; do
          #{postgres.shelljoin} &
          pid=$!
          wait "$pid"
          rm again 2>&- || break
        done
        wait
      SH
    end

    # The last line is "starting" until it accepts connections.
    def status = lines[7]&.strip

    # The lines of postmaster.pid.
    def lines
      File.readlines("#{folder}/data/postmaster.pid", chomp: true)
    rescue Errno::ENOENT
      [] # the file doesn't exist
    end
  end
end
