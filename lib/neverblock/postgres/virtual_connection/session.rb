# frozen_string_literal: true

require_relative "local_results"
require_relative "delegation"
require_relative "sharing"

module NeverBlock
  class Postgres
    class VirtualConnection < PG::Connection
      # What one virtual connection does and keeps: its names, its settings, the real connection that it has for itself. {Virtual} is how its
      # user sees it, a PG::Connection, and passes all calls on: the instance variables of an object of pg's are in a table of Ruby's, where
      # each look takes ten times as long.
      #
      #   session = Session.new(connection, multiplexer, classifier, SharingPolicy.new(:reads), false)
      #   session.exec("select 1")
      # @api private
      class Session
        include LocalResults
        include Delegation
        include Sharing

        # What was given a name.
        Prepared = Struct.new(:sql, :types, :classification, :key, :at)
        private_constant :Prepared

        # By which sequences get on.
        NUMBERING = /\b(?:insert|merge|copy|nextval)\b/i
        private_constant :NUMBERING

        WITHOUT_MULTIPLEXING = "without_multiplexing"
        private_constant :WITHOUT_MULTIPLEXING

        # @param connection [Virtual] that its user has, which knows the types of parameters and results
        # @param multiplexer [Multiplexer]
        # @param classifier [Classifier]
        # @param policy [SharingPolicy]
        # @param member [Boolean] whether real connections are kept for it until it is closed
        def initialize(connection, multiplexer, classifier, policy, member)
          @connection = connection
          @member = member
          multiplexer.joined if member
          @multiplexer = multiplexer
          @classifier = classifier
          @policy = policy
          @session_defaults = SessionDefaults::EMPTY
          @names = {}
          @closed = @configuring = @lost = @pipelined = @sharing = false
          @lease = @opening = @notices = @cluster = @unshared = nil
          @lease_lock = FairLock.new
          @holding = 0
          @queue_time = 0.0
          @error_message = ""
        end

        # Statements of the block share no connection: they have a real one for themselves, which is made as new afterwards. One
        # that it has already, for a transaction or a session, goes on until its end.
        # @return [Object] the block's value
        def without_multiplexing
          return yield if @unshared || changed? || !in_loop?
          begin
            @unshared = WITHOUT_MULTIPLEXING
            @lease&.leave_state(WITHOUT_MULTIPLEXING)
            yield
          ensure
            @unshared = nil
            end_unshared
          end
        end

        # @return [Boolean] whether it is in a block of {#without_multiplexing}
        def without_multiplexing? = !@unshared.nil?
        alias_method :alone?, :without_multiplexing? # its name before 0.3

        # What is set in the block belongs to the connection's session defaults: it is set on all real connections that serve it, so that it
        # needs none for itself.
        # @return [Object] the block's value
        def configure
          before, @configuring = @configuring, true
          yield
        ensure
          @configuring = before
        end

        # The same for adapters that don't do it in one place: up to {#configured}.
        # @return [void]
        def configuring = @configuring = true

        # @return [void]
        def configured = @configuring = false

        # Its user has done with it for now: what it has for itself is given back.
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

        # @return [Boolean] whether its session keeps something that is not of its session defaults
        def changed? = !@lease&.state.nil?

        # @return [SessionDefaults]
        attr_reader :session_defaults

        # @return [Float] seconds that the last statement waited for a real connection
        attr_reader :queue_time

        # @return [Boolean] whether the last statement went with others of a pipeline
        def pipelined? = @pipelined

        # @return [String, nil] why it has a real connection for itself
        def leased_for = @lease && (@lease.state || "a transaction")

        # @return [PG::Result]
        def exec(sql, params = nil, format = 0, encoders = nil, &block)
          return deliver(perform(sql, params, format, encoders || @connection.type_map_for_queries, @classifier.call(sql), nil), &block) if params
          deliver(perform(sql, Statement::NONE, format, nil, @classifier.call(sql), nil), &block)
        end

        # @return [PG::Result]
        def exec_params(sql, params = nil, format = 0, encoders = nil, &block)
          return deliver(perform(sql, Statement::NONE, 0, nil, @classifier.call(sql), nil), &block) unless params # as pg does
          deliver(perform(sql, params, format, encoders || @connection.type_map_for_queries, @classifier.call(sql), nil), &block)
        end

        # It is parsed on each real connection where it is first used.
        # @return [PG::Result]
        def prepare(name, sql, types = nil)
          name = name.to_s
          raise PG::DuplicatePstatement, "ERROR:  prepared statement #{name.inspect} already exists\n" if @names.key?(name) && !name.empty?
          sql = -sql.to_s
          prepared = Prepared.new(sql, types, @classifier.call(sql), types ? -"#{types.join(" ")} #{sql}" : sql, Process.clock_gettime(Process::CLOCK_MONOTONIC))
          done.tap { @names[name] = prepared } # it may have to wait, and fail
        end

        # @return [PG::Result]
        def exec_prepared(name, params = Statement::NONE, format = 0, encoders = nil, &block)
          prepared = @names[name.to_s]
          raise PG::InvalidSqlStatementName, "ERROR:  prepared statement #{name.to_s.inspect} does not exist\n" unless prepared
          deliver(perform(prepared.sql, params || Statement::NONE, format, encoders || @connection.type_map_for_queries, prepared.classification, prepared), &block)
        end

        # @return [PG::Result]
        def close_prepared(name)
          give_up(name.to_s)
          done
        end

        # @return [PG::Result]
        def describe_prepared(name)
          prepared = @names[name.to_s]
          raise PG::InvalidSqlStatementName, "ERROR:  prepared statement #{name.to_s.inspect} does not exist\n" unless prepared
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

        # A libpq before 17 has none of them.
        (%i[close_prepared async_close_prepared sync_close_prepared] - PG::Connection.instance_methods).each { |name| remove_method(name) }

        private

        # Of another cluster its user knows neither the types' numbers nor the tables.
        def check_cluster
          @cluster ||= @multiplexer.clusters unless @multiplexer.clusters == 0
          return if @cluster.nil? || @cluster == @multiplexer.clusters
          @lost = true
          raise OtherCluster
        end

        def check_open
          raise PG::ConnectionBad, "connection is closed" if @closed
          raise PG::ConnectionBad, "this connection's transaction, or what it kept, was lost: reset it" if @lost
        end

        # A statement of whatever kind, to wherever it belongs.
        def perform(sql, params, format, encoders, classification, prepared)
          check_open
          @error_message = ""
          result = at_once(sql, params, format, encoders, classification, prepared) if classification.kind == :read && @lease.nil? && @opening.nil? && @unshared.nil?
          return result if result
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

        # The real connection that the error would lead to serves other fibers too.
        def own(error)
          error.instance_variable_set(:@connection, @connection) if error.connection && !error.frozen?
          error
        end

        # A name may be given up since the tables have changed: the text is parsed anew, wherever it was known.
        # @return [Boolean] whether there was one
        def give_up(name)
          prepared = @names.delete(name)
          @multiplexer.definitions.forget(prepared.key) if prepared
          !prepared.nil?
        end

        def in_loop? = Scheduler.current

        def in_lease(sql, params, format, encoders, classification, prepared)
          purpose = classification.reason || classification.kind.to_s
          lasting = @policy.lasting?(classification, sql, transaction_status != PG::PQTRANS_IDLE)
          lease = leased(purpose, session: (purpose if lasting))
          return go_on_failed(lease, classification) if lease.unbegun? && classification.kind != :empty
          final = classification.kind == :commit || (@opening.nil? && lease.transaction_status == PG::PQTRANS_IDLE) # all else ends with its transaction
          lease.leave_state(sql, Resets.left(classification)) if lasting || classification.kind == :copy
          lease.moved if (classification.kind == :session && classification.setting.nil?) || Settings::MEANING[classification.setting || classification.name]
          @wrote = true if classification.kind == :write || classification.kind == :copy
          if classification.several || SharingPolicy.kind(classification.kind).simple
            plainly(lease, classification, sql, params, format, encoders)
          else
            statement = statement(sql, params, format, encoders, classification, prepared)
            @opening = nil # other fibers with the same connection take turns, and must not send it too
            lease.run(statement)
          end
        rescue Exception # standard:disable Lint/RescueException -- it goes on, and says more
          OutcomeNote.add($!) if final && (statement ? statement.in_doubt? : !(PG::Error === $!))
          raise
        ensure
          settled(lease, statement) if lease
        end

        # As in any transaction that has failed.
        def go_on_failed(lease, classification = nil)
          return lease.end_unbegun if %i[commit rollback].include?(classification&.kind)
          raise PG::InFailedSqlTransaction, "ERROR:  current transaction is aborted, commands ignored until end of transaction block: its BEGIN has failed\n"
        end

        # The simple protocol, which alone takes several statements at once, COPY, and an empty one in a transaction that has failed.
        # What was not asked for by exec - and so has encoders - must not get several through by it, parameters or not.
        def plainly(lease, classification, sql, params, format, encoders)
          lease.plainly(sql)
          lease.native(@notices) do |pg|
            send_opening(pg)
            lease.limited(sql) { encoders ? pg.exec_params(sql, params, format, encoders) : pg.exec(sql) }
          end
        ensure
          @multiplexer.definitions.altered(lease.connection, lasting: Statement.defining?(sql)) if classification.several # there may have been definitions among them
        end

        # Again, if it was interrupted: the server then says no more than that there is one.
        def send_opening(pg)
          pg.exec(@opening) if @opening
          @opening = nil
        end

        # A real connection for itself.
        # @param session [String, nil] what of a session it is needed for
        def leased(purpose, session: nil)
          check_open
          @queue_time = 0.0
          @pipelined = false
          session ||= @unshared
          return @lease if fits?(session)
          @lease_lock.synchronize { fits?(session) ? @lease : take(purpose, session) } # several fibers may have been handed it
        end

        def fits?(session) = @lease && !(session && @lease.pooled?)

        # It may have to wait for one. A fiber that comes back when its holder has done with it must not send anything: that would be in no
        # transaction.
        def take(purpose, session)
          multiplexer = session ? @multiplexer.with_sessions(session) : @multiplexer
          if @lease
            raise PgBouncer.no_session("#{session}, in a transaction that has begun without") if @lease.transaction_status != PG::PQTRANS_IDLE
            check_in
          end
          @wrote = false
          holding = @holding
          lease = multiplexer.lease(@session_defaults, purpose:, opening: !@opening.nil?)
          check_open
          raise PG::ConnectionBad, "this connection was given back while a statement waited for a real one: it was not sent" if holding != @holding
          check_cluster
          @queue_time = lease.queue_time
          lease.leave_state(@unshared) if @unshared
          @lease = lease
        ensure
          lease&.give_back unless lease.equal?(@lease)
        end

        # A connection that was held by request is given back without a line in the log.
        def end_unshared
          return if @lease.nil? || @opening || transaction_status != PG::PQTRANS_IDLE
          lease, @lease = @lease, nil
          lease.give_back
        end

        # A transaction's end is its lease's, unless something else is kept.
        def settled(lease, statement)
          return unless @lease.equal?(lease)
          @opening ||= statement.opening if statement && !statement.sent?
          if lease.broken?
            @lost = true
            @lease = nil
          elsif lease.state.nil? && !lease.tainted? && in_loop? && @opening.nil? && lease.transaction_status == PG::PQTRANS_IDLE
            @lease = nil
            lease.give_back
          end
        end

        # currval on a connection that was leased only now tells of another fiber's insert.
        def check_sequences(sql, classification)
          return if (@lease && @wrote) || !in_loop? || (classification.several && NUMBERING.match?(sql))
          raise PG::ObjectNotInPrerequisiteState, "ERROR:  currval and lastval are not yet defined here: nothing was inserted in this transaction. " \
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
