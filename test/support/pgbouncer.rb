# frozen_string_literal: true

require_relative "postgres"

module NeverBlockTest
  # PgBouncer before a PostgreSQL of the tests, with a unix socket in a folder of its own.
  #
  #   reason = PgBouncer.missing and skip reason
  #   PgBouncer.open(postgres, pool_mode: "transaction") { |bouncer| PG.connect(bouncer.url) }
  #
  # NEVERBLOCK_PGBOUNCER is the path of a newer release's program (bin/lib/pgbouncer.sh).
  class PgBouncer
    SETTINGS = {pool_mode: "transaction", default_pool_size: 4, max_client_conn: 100, auth_type: "trust", admin_users: PostgresServer::USER, server_login_retry: 0.2}.freeze

    class << self
      # @return [String, nil] the path of the distribution's program
      def installed = Peer.find("pgbouncer")

      # @return [String, nil] the path of a newer release's program
      def newer = ENV["NEVERBLOCK_PGBOUNCER"]

      # @param program [String, nil]
      # @return [String, nil] why it can't be used
      def missing(program = installed)
        PostgresServer.missing || ("this pgbouncer is not here (bin/setup installs one as root on Debian, and builds a newer one)" unless program)
      end

      # @param program [String] its path
      # @return [Boolean] whether that release tracks prepared statements, and keeps sessions until all answers have
      #   arrived
      def modern?(program) = Gem::Version.new(IO.popen([program, "--version"], &:read)[/[\d.]+/]) >= Gem::Version.new("1.24")

      # @param postgres [PostgresServer]
      # @param program [String] its path
      # @param settings [Hash{Symbol=>Object}] as in pgbouncer.ini
      # @yieldparam bouncer [PgBouncer] that is stopped afterwards
      # @return [Object] the block's value
      def open(postgres, program: installed, **settings)
        bouncer = new(postgres, {**SETTINGS, **settings}, program)
        yield bouncer
      ensure
        bouncer&.stop
      end
    end

    # @return [Integer]
    attr_reader :port

    # @api private
    def initialize(postgres, settings, program)
      @program = program
      @port = Peer.free_port
      @peer = Peer.start(user: PostgresServer.account) { |folder| command(folder, postgres, settings) }
      @peer.until_ready { Peer.accepts?("#{folder}/.s.PGSQL.#{port}") }
    end

    # @return [String] the folder of its socket, the `host` of libpq
    def folder = @peer.folder

    # @param database [String]
    # @param user [String]
    # @return [String]
    def url(database = "postgres", user: PostgresServer::USER) = "postgresql:///#{database}?host=#{folder}&port=#{port}&user=#{user}"

    # Makes the pooler open new sessions from now on.
    # @return [void]
    def reconnect
      admin = PG.connect(url("pgbouncer"))
      admin.exec("RECONNECT")
    ensure
      admin&.close
    end

    # @return [String] its output so far
    def log = @peer.log

    # @return [void]
    def stop = @peer.stop

    private

    def command(folder, postgres, settings)
      File.write("#{folder}/users.txt", %("#{PostgresServer::USER}" ""\n"app" ""\n"soak_app" ""\n))
      all = {listen_addr: "", listen_port: port, unix_socket_dir: folder, auth_file: "#{folder}/users.txt", **settings}
      File.write("#{folder}/pgbouncer.ini", <<~INI)
        [databases]
        * = host=#{postgres.folder} port=#{postgres.port}
        [pgbouncer]
        #{all.map { |name, value| "#{name} = #{value}" }.join("\n")}
      INI
      FileUtils.cp(@program, "#{folder}/pgbouncer") # its user may not enter the folder of the program that was built
      ["#{folder}/pgbouncer", "#{folder}/pgbouncer.ini"]
    end
  end
end
