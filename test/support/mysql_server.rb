# frozen_string_literal: true

require "etc"
require "shellwords"
require_relative "peer"

module NeverBlockTest
  # A MariaDB of the tests' own, new and empty, that is thrown away afterwards, even if the process that started it is
  # killed. Its superuser is let in without a password, through a unix socket in `folder` or 127.0.0.1 at `port`.
  #
  #   reason = MySQLServer.missing and skip reason
  #   MySQLServer.open(max_connections: 50) do |mysql|
  #     Trilogy.new(mysql.options)
  #   end
  #
  #   mysql = MySQLServer.start     # … and
  #   mysql.restart                 # its data stay
  #   mysql.stop
  class MySQLServer
    # Speed before safety, and no io_uring, whose memory is limited for all processes of a user together.
    # Nothing in it is to outlive a power cut, but all outlives `restart(:KILL)`.
    SETTINGS = {
      "innodb-flush-log-at-trx-commit" => 2, "innodb-flush-method" => "nosync", "innodb-log-file-size" => "8M", "innodb-use-native-aio" => 0,
      "innodb-buffer-pool-size" => "32M", "skip-name-resolve" => nil, "bind-address" => "127.0.0.1"
    }.freeze

    USER = "nb"
    DATABASE = "nb"

    PROGRAMS = %w[mariadbd mariadb-install-db mariadb].freeze

    # @return [String, nil] why there is none
    def self.missing = PROGRAMS.filter_map { |name| Peer.missing(name) }.first

    # @param settings [Hash{Symbol=>Object}] options of mariadbd
    # @return [MySQLServer] that answers
    # @raise [RuntimeError] if it does not, with what it said
    def self.start(**settings)
      raise missing if missing
      new({**SETTINGS, **settings.transform_keys { |name| name.to_s.tr("_", "-") }})
    end

    # @yieldparam mysql [MySQLServer] that is stopped afterwards
    # @return [Object] the block's value
    def self.open(**settings)
      mysql = start(**settings)
      yield mysql
    ensure
      mysql&.stop
    end

    # It refuses to run as root.
    # @return [String] whose process it is then
    def self.account = (Etc::Passwd.any? { |account| account.name == "mysql" }) ? "mysql" : "nobody"

    # @return [Integer]
    attr_reader :port

    # @api private
    def initialize(settings)
      @port = Peer.free_port
      @peer = Peer.start(user: self.class.account) { |folder| command(folder, settings) }
      @peer.until_ready { accepts? }
    end

    # @return [String] where its socket is
    def folder = @peer.folder

    # @return [String] the path of its socket
    def socket = "#{folder}/s"

    # @param more [Hash] of Trilogy.new
    # @return [Hash] for Trilogy.new, through TCP
    def options(**more) = {host: "127.0.0.1", port: @port, username: USER, database: DATABASE, **more}

    # @return [String] what the client prints of it, bare
    # @raise [RuntimeError] if it is refused
    def query(sql, database: DATABASE)
      command = [Peer.find("mariadb"), "--no-defaults", "-S", socket, "-u", USER, "-N", "-B", "-e", sql, *database]
      output = IO.popen(command, err: %i[child out], &:read)
      $?.success? ? output.chomp : raise(output)
    end

    # @return [String] what it has said so far
    def log = @peer.log

    # Ends it, as an administrator does or at once, and starts it again at the same port.
    # @param signal [:TERM, :KILL]
    # @return [void] when it answers
    def restart(signal = :TERM)
      before = pid
      File.write("#{folder}/again", "")
      Process.kill(signal, before)
      @peer.until_ready { pid != before && accepts? }
    end

    # @return [Integer, nil]
    def pid
      Integer(File.read("#{folder}/pid"), exception: false)
    rescue Errno::ENOENT
      nil
    end

    # @return [void]
    def stop = @peer.stop

    private

    def accepts?
      return false unless Peer.accepts?(socket)
      query("select 1") == "1"
    rescue RuntimeError
      false
    end

    def command(folder, settings)
      # One that starts deletes what others have in the same folder of temporary files.
      create = [Peer.find("mariadb-install-db"), "--no-defaults", "--datadir=#{folder}/data", "--tmpdir=#{folder}", "--skip-test-db",
        "--auth-root-authentication-method=normal", "--innodb-log-file-size=8M", "--innodb-use-native-aio=0"]
      File.write("#{folder}/init.sql", <<~SQL)
        CREATE DATABASE IF NOT EXISTS #{DATABASE};
        CREATE USER IF NOT EXISTS #{USER}@'%';
        GRANT ALL ON *.* TO #{USER}@'%';
      SQL
      options = settings.map { |name, value| "--#{name}#{"=#{value}" if value}" }
      server = [Peer.find("mariadbd"), "--no-defaults", "--datadir=#{folder}/data", "--tmpdir=#{folder}", "--port=#{@port}",
        "--socket=#{folder}/s", "--pid-file=#{folder}/mysqld.pid", "--init-file=#{folder}/init.sql", *options]
      ["sh", "-c", <<~SH]
        #{create.shelljoin} || exit
        trap 'stop=1; kill -KILL "$pid"' TERM
        while [ -z "$stop" ]; do
          #{server.shelljoin} &
          pid=$!
          echo "$pid" >pid
          wait "$pid"
          rm again 2>&- || break
        done
        wait
      SH
    end
  end
end
