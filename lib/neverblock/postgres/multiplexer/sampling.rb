# frozen_string_literal: true

module NeverBlock
  class Postgres
    class Multiplexer
      # Any connection will do: for calls that send nothing to the server, and to see whether it is reachable. The first
      # of several concurrent callers opens a connection if none is open.
      #
      #   multiplexer.sample { |pg| pg.server_version }
      #   multiplexer.local_result("BEGIN").cmd_status   # => "BEGIN"
      # @api private
      module Sampling
        # Checks that the server is reachable, as far as sockets tell.
        # @return [void]
        # @raise [PG::Error] if no connection is open and none can be opened
        def verify
          @pool.check
          return if @pool.connections.dup.any? { |connection| connection.alive?(look: true) }
          @first.call(:verify) { open_one(SessionDefaults::EMPTY) }
        end

        # Yields any fitting connection, for calls that send nothing to the server.
        # @param session_defaults [SessionDefaults, nil] the encoding must equal theirs; nil: any connection fits
        # @param whole [Boolean] whether all session defaults must be equal
        # @param settings [Array<String>] reported settings that must have their defaults: a lease may have changed them
        # @yieldparam pg [PG::Connection]
        # @return [Object] the block's value
        def sample(session_defaults = nil, whole: false, settings: Statement::NONE)
          @pool.check
          fits = ->(other) {
            session_defaults.nil? || (whole ? other == session_defaults : other.encoding == session_defaults.encoding)
          }
          plain = ->(candidate) { settings.empty? || candidate.holder.nil? || candidate.reported.leak(settings).nil? }
          usable = ->(one) { one.broken.nil? && fits.call(one.session_defaults) && plain.call(one) }
          until (connection = @pool.connections.find(&usable)) # opens one for all concurrent callers
            key = whole ? session_defaults : session_defaults&.encoding
            @first.call(key) { open_one(session_defaults || SessionDefaults::EMPTY) }
          end
          yield connection.pg
        end

        # Makes a result without asking the server. It needs an open connection for that.
        # @param tag [String] such as "BEGIN"
        # @return [PG::Result]
        def local_result(tag)
          connection = @pool.connections.find { |candidate| candidate.broken.nil? }
          connection ? local_result_from(connection.pg, tag) : sample { |pg| local_result_from(pg, tag) }
        end

        private

        def local_result_from(pg, tag)
          return LocalResult.of(tag, pg) unless LocalResult.shared?
          @local_results[tag] ||= LocalResult.of(tag, pg)
        end

        # In a loop a shared statement opens it: leases may hold all connections but the one that is left to share.
        def open_one(session_defaults)
          return lease(session_defaults, purpose: "the first connection").give_back unless Scheduler.current
          run(Statement.new("SELECT 1", session_defaults:, judged: true)).clear
        end
      end
    end
  end
end
