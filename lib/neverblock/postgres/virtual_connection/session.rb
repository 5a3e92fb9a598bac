# frozen_string_literal: true

require_relative "local_results"
require_relative "delegation"
require_relative "sharing"
require_relative "unshared"

module NeverBlock
  class Postgres
    class VirtualConnection < PG::Connection
      # The state and the calls of one virtual connection: its prepared statements, its settings, its lease. The user
      # has a {Virtual}, which is a PG::Connection and passes all calls on. The state is not there, because instance
      # variables of a pg object are in a hash table of Ruby's, where each access takes ten times as long.
      #
      #   session = Session.new(connection, multiplexer, classifier, SharingPolicy.new(:reads), false)
      #   session.exec("select 1")
      # @api private
      class Session
        include LocalResults
        include Delegation
        include Sharing
        include Unshared

        # A prepared statement.
        Prepared = Struct.new(:sql, :types, :classification, :key, :at)
        private_constant :Prepared

        # Words of statements that may advance a sequence.
        NUMBERING = /\b(?:insert|merge|copy|nextval)\b/i
        private_constant :NUMBERING

        # @param connection [Virtual] the user's object, which has the type maps of parameters and results
        # @param multiplexer [Multiplexer]
        # @param classifier [Classifier]
        # @param policy [SharingPolicy]
        # @param member [Boolean] whether real connections stay open until it is closed
        def initialize(connection, multiplexer, classifier, policy, member)
          @connection = connection
          @member = member
          multiplexer.joined if member
          @multiplexer = multiplexer
          @classifier = classifier
          @policy = policy
          @session_defaults = SessionDefaults::EMPTY
          @names = {}
          @closed = @configuring = @lost = @pipelined = @sharing = @urgent = false
          @lease = @opening = @notices = @cluster = @unshared = nil
          @lease_lock = FairLock.new
          @holding = 0
          @queue_time = 0.0
          @error_message = ""
        end

        # Settings made in the block become session defaults: each real connection gets them before it serves this one,
        # so that they need no lease.
        # @return [Object] the block's value
        def configure
          before, @configuring = @configuring, true
          yield
        ensure
          @configuring = before
        end

        # The same for adapters that can't use a block: it lasts until {#configured}.
        # @return [void]
        def configuring = @configuring = true

        # @return [void]
        def configured = @configuring = false

        # The user has finished with it for now: ends its lease.
        # @return [void]
        def check_in
          @opening = nil
          @holding += 1
          lease, @lease = @lease, nil
          return unless lease
          begin
            @multiplexer.note(lease) if lease.state && in_loop?
          ensure
            lease.give_back
          end
        end

        # @return [Boolean] whether its lease has session state
        def changed? = !@lease&.state.nil?

        # @return [SessionDefaults]
        attr_reader :session_defaults

        # @return [Float] seconds that the last statement waited for a real connection
        attr_reader :queue_time

        # @return [Boolean] whether the last statement went with others of a pipeline
        def pipelined? = @pipelined

        # @return [String, nil] why it has a lease
        def leased_for = @lease && (@lease.state || "a transaction")

        # @return [PG::Result]
        def exec(sql, params = nil, format = 0, encoders = nil, &block)
          if params
            return deliver(perform(sql, params, format, encoders || @connection.type_map_for_queries,
              @classifier.call(sql), nil), &block)
          end
          deliver(perform(sql, Statement::NONE, format, nil, @classifier.call(sql), nil), &block)
        end

        # @return [PG::Result]
        def exec_params(sql, params = nil, format = 0, encoders = nil, &block)
          # Without parameters it is as in pg.
          return deliver(perform(sql, Statement::NONE, 0, nil, @classifier.call(sql), nil), &block) unless params
          deliver(perform(sql, params, format, encoders || @connection.type_map_for_queries, @classifier.call(sql),
            nil), &block)
        end

        # Sends nothing: the statement is prepared on each real connection when it is first executed there.
        # @return [PG::Result]
        def prepare(name, sql, types = nil)
          name = name.to_s
          if @names.key?(name) && !name.empty?
            raise PG::DuplicatePstatement, "ERROR:  prepared statement #{name.inspect} already exists\n"
          end
          sql = -Statement.readable(sql.to_s)
          prepared = Prepared.new(sql, types, @classifier.call(sql), types ? -"#{types.join(" ")} #{sql}" : sql,
            Clock.now)
          done.tap { @names[name] = prepared } # it may have to wait, and fail
        end

        # @return [PG::Result]
        def exec_prepared(name, params = Statement::NONE, format = 0, encoders = nil, &block)
          prepared = @names[name.to_s]
          unless prepared
            raise PG::InvalidSqlStatementName, "ERROR:  prepared statement #{name.to_s.inspect} does not exist\n"
          end
          deliver(perform(prepared.sql, params || Statement::NONE, format, encoders || @connection.type_map_for_queries,
            prepared.classification, prepared), &block)
        end

        # @return [PG::Result]
        def close_prepared(name)
          give_up(name.to_s)
          done
        end

        # @return [PG::Result]
        def describe_prepared(name)
          prepared = @names[name.to_s]
          unless prepared
            raise PG::InvalidSqlStatementName, "ERROR:  prepared statement #{name.to_s.inspect} does not exist\n"
          end
          leased("describe_prepared", session: "describe_prepared").native do |pg|
            pg.prepare("", prepared.sql, prepared.types)
            pg.describe_prepared("")
          end
        end

        alias_method :async_exec, :exec
        alias_method :sync_exec, :exec
        alias_method :query, :exec
        alias_method :async_query, :exec
        alias_method :async_exec_params, :exec_params
        alias_method :sync_exec_params, :exec_params
        alias_method :async_prepare, :prepare
        alias_method :sync_prepare, :prepare
        alias_method :async_exec_prepared, :exec_prepared
        alias_method :sync_exec_prepared, :exec_prepared
        alias_method :async_close_prepared, :close_prepared
        alias_method :sync_close_prepared, :close_prepared
        alias_method :async_describe_prepared, :describe_prepared
        alias_method :sync_describe_prepared, :describe_prepared

        # Before libpq 17 pg has none of these.
        (%i[close_prepared async_close_prepared sync_close_prepared] - PG::Connection.instance_methods).each { |name|
          remove_method(name)
        }

        private

        # After a change of the cluster the user's OIDs and schema are invalid.
        def check_cluster
          reached = @multiplexer.clusters
          return if @cluster == reached
          return (@cluster = reached unless reached == 0) if @cluster.nil?
          @lost = true
          raise OtherCluster
        end

        def check_open
          raise PG::ConnectionBad, "connection is closed" if @closed
          if @lost
            raise PG::ConnectionBad,
              "this connection's transaction or session state was lost with its real connection: reset it"
          end
        end

        # Runs a statement: by the fast path, here without the server, shared, or in a lease.
        def perform(sql, params, format, encoders, classification, prepared)
          check_open
          @error_message = ""
          if @lease
            result = in_transaction(sql, params, format, encoders, classification, prepared)
          elsif classification.kind == :read && @opening.nil? && @unshared.nil?
            result = at_once(sql, params, format, encoders, classification, prepared)
          end
          return result if result
          unless (text = Statement.readable(sql)).equal?(sql)
            return perform(text, params, format, encoders, @classifier.call(text), prepared)
          end
          sql, params = Statement.own(sql), Statement.own(params)
          check_cluster unless @lease
          own = local_result(sql, params, classification)
          return own if own
          check_sequences(sql, classification) if classification.currval
          if @lease.nil? && in_loop? && !@opening && !@unshared && @policy.placed?(classification)
            share(statement(sql, params, format, encoders, classification, prepared))
          else
            in_lease(sql, params, format, encoders, classification, prepared)
          end
        rescue PG::Error => error
          @error_message = error.message
          raise own(error)
        end

        # An error names the virtual connection, not the real one, which serves other fibers too.
        def own(error)
          error.instance_variable_set(:@connection, @connection) if error.connection && !error.frozen?
          error
        end

        # Drops a prepared statement, also on the real connections: adapters do so when its tables have changed.
        # @return [Boolean] whether there was one
        def give_up(name)
          prepared = @names.delete(name)
          @multiplexer.definitions.forget(prepared.key) if prepared
          !prepared.nil?
        end

        def in_loop? = Scheduler.current

        def in_lease(sql, params, format, encoders, classification, prepared)
          kind = classification.kind
          purpose = classification.reason || kind.to_s
          lasting = @policy.lasting?(classification, sql, transaction_status != PG::PQTRANS_IDLE)
          lease = leased(purpose, session: (purpose if lasting))
          return go_on_failed(lease, classification) if lease.unbegun? && kind != :empty
          # Only a COMMIT, or a statement outside a transaction, can have taken effect; others are rolled back.
          final = kind == :commit || (@opening.nil? && lease.transaction_status == PG::PQTRANS_IDLE)
          lease.leave_state(sql, Resets.left(classification)) if lasting || kind == :copy
          lease.moved if (kind == :session && classification.setting.nil?) ||
            Settings::MEANING[classification.setting || classification.name]
          @wrote = true if kind == :write || kind == :copy
          if classification.several || SharingPolicy.kind(kind).simple
            plainly(lease, classification, sql, params, format, encoders)
          else
            statement = statement(sql, params, format, encoders, classification, prepared)
            @opening = nil # before other fibers with this connection get their turn: they must not send it too
            lease.run(statement)
          end
        rescue Exception # standard:disable Lint/RescueException -- re-raised, with a note
          OutcomeNote.add($!) if final && (statement ? statement.effect_unknown? : !(PG::Error === $!))
          raise
        ensure
          settled(lease, statement) if lease
        end

        # The transaction could not begin: acts as in any failed transaction.
        def go_on_failed(lease, classification = nil)
          return lease.end_unbegun if %i[commit rollback].include?(classification&.kind)
          raise PG::InFailedSqlTransaction, "ERROR:  current transaction is aborted, commands ignored until end of " \
            "transaction block: its BEGIN has failed\n"
        end

        # Out of pipeline mode, for COPY, for several statements in one text, and for an empty statement in a failed
        # transaction. A call with encoders was not made by exec, and must not run several statements.
        def plainly(lease, classification, sql, params, format, encoders)
          lease.plainly(sql)
          lease.native(@notices) do |pg|
            send_opening(pg)
            lease.limited(sql) { encoders ? pg.exec_params(sql, params, format, encoders) : pg.exec(sql) }
          end
        ensure
          # Some may be definitions.
          if classification.several
            @multiplexer.definitions.altered(lease.connection, lasting: Alteration.within?(sql))
          end
        end

        # It is sent again after an interrupt: the server then only warns that a transaction is in progress.
        def send_opening(pg)
          pg.exec(@opening) if @opening
          @opening = nil
        end

        # @param session [String, nil] the operation that needs a session; nil: a transaction is enough
        # @return [Lease]
        def leased(purpose, session: nil)
          check_open
          @queue_time = 0.0
          @pipelined = false
          session ||= @unshared
          return @lease if fits?(session)
          # Several fibers may use this connection.
          @lease_lock.synchronize { fits?(session) ? @lease : take(purpose, session) }
        end

        def fits?(session) = @lease && !(session && @lease.pooled?)

        # Waits for a lease. If the virtual connection is checked in meanwhile, nothing is sent: the statement would run
        # outside its transaction.
        def take(purpose, session)
          multiplexer = session ? @multiplexer.with_sessions(session) : @multiplexer
          if @lease
            if @lease.transaction_status != PG::PQTRANS_IDLE
              raise PgBouncer.no_session("#{session}, in a transaction that has begun without")
            end
            check_in
          end
          @wrote = false
          holding = @holding
          lease = multiplexer.lease(@session_defaults, purpose:, opening: !@opening.nil?, urgent: @urgent)
          check_open
          if holding != @holding
            raise PG::ConnectionBad,
              "this connection was checked in while its statement waited for a real one: the statement was not sent"
          end
          check_cluster
          @queue_time = lease.queue_time
          lease.leave_state(@unshared) if @unshared
          @lease = lease
        ensure
          lease&.give_back unless lease.equal?(@lease)
        end

        # The end of a transaction ends its lease, unless there is session state.
        def settled(lease, statement)
          return unless @lease.equal?(lease)
          @opening ||= statement.opening if statement && !statement.sent?
          if lease.broken?
            @lost = true
            @lease = nil
          elsif lease.state.nil? && !lease.tainted? && in_loop? && @opening.nil? &&
              lease.transaction_status == PG::PQTRANS_IDLE
            @lease = nil
            lease.give_back
          end
        end

        # On a connection that is leased only now, currval would return the value of another fiber's insert.
        def check_sequences(sql, classification)
          return if (@lease && @wrote) || !in_loop? || (classification.several && NUMBERING.match?(sql))
          raise PG::ObjectNotInPrerequisiteState, "ERROR:  currval and lastval are not yet defined here: nothing was " \
            "inserted in this transaction. " \
            "Use INSERT … RETURNING, or keep INSERT and currval in one transaction\n"
        end

        def deliver(result)
          types = @connection.type_map_for_results
          result.type_map = types if types && !result.cleared?
          names = @connection.field_name_type
          result.field_name_type = names unless names == :string
          return result unless block_given?
          begin
            yield result
          ensure
            result.clear
          end
        end
      end
    end
  end
end
