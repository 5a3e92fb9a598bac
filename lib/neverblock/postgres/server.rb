# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Which server a connection leads to, and in which role: two connections to one server have equal ones. A server that was
    # restarted, or promoted, is another one, of the same cluster: its tables and types are the same.
    #
    #   Server.ask(pg)   # => [#<data NeverBlock::Postgres::Server started="1763806012.123456", standby=false, cluster="76…">, 4711]
    # @api private
    Server = Data.define(:started, :standby, :cluster) do
      # They are known apart by when they were started, to the microsecond: names and addresses may be several, or move.
      # @param pg [PG::Connection]
      # @return [Array(Server, Integer)] and the number of the process that answers
      def self.ask(pg)
        started, standby, process, cluster = pg.exec(format(Server::SQL, ", (select system_identifier from pg_catalog.pg_control_system())")).values.first
        [new(started:, standby: standby == "true", cluster:), process.to_i]
      rescue PG::InsufficientPrivilege # then clusters are not known apart
        started, standby, process = pg.exec(format(Server::SQL, "")).values.first
        [new(started:, standby: standby == "true", cluster: nil), process.to_i]
      end

      # @return [String]
      def to_s = "#{standby ? "a standby" : "a primary"} that runs since #{Time.at(started.to_f).utc}"
    end

    Server::SQL = "select extract(epoch from pg_catalog.pg_postmaster_start_time())::text, pg_catalog.pg_is_in_recovery()::text, pg_catalog.pg_backend_pid()%s"
  end
end
