# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Identity and role of a server: equal for two connections to the same one. After a restart or promotion it is a
    # different server of the same cluster, with the same tables and types.
    #
    #   Server.ask(pg)   # => [#<data … started="1763806012.123456", standby=false, cluster="76…">, 4711]
    # @api private
    Server = Data.define(:started, :standby, :cluster) do
      # Servers are told apart by start time in microseconds: one may have several names and addresses, which may move.
      # @param pg [PG::Connection]
      # @return [Array(Server, Integer)] the server, and the pid of the backend that answers
      def self.ask(pg)
        identifier = ", (select system_identifier from pg_catalog.pg_control_system())"
        started, standby, process, cluster = pg.exec(format(Server::SQL, identifier)).values.first
        [new(started:, standby: standby == "true", cluster:), process.to_i]
      rescue PG::InsufficientPrivilege # clusters can't be told apart
        started, standby, process = pg.exec(format(Server::SQL, "")).values.first
        [new(started:, standby: standby == "true", cluster: nil), process.to_i]
      end

      # @return [String]
      def to_s = "#{standby ? "a standby" : "a primary"} that runs since #{Time.at(started.to_f).utc}"
    end

    Server::SQL = "select extract(epoch from pg_catalog.pg_postmaster_start_time())::text, " \
      "pg_catalog.pg_is_in_recovery()::text, pg_catalog.pg_backend_pid()%s"
  end
end
