# frozen_string_literal: true

module NeverBlock
  class Postgres
    class VirtualConnection < PG::Connection
      # Results that a virtual connection makes without the server: of BEGIN, which is sent with the first statement; of
      # settings that become session defaults; of its prepared statements; and its own status.
      module LocalResults
        # Returned by {#cancel} for a statement without a lease.
        ELSEWHERE = "the statement may share its connection, and is not cancelled by it: end its fiber's wait, by a " \
          "timeout or Task#cancel"
        private_constant :ELSEWHERE

        # @return [Integer] PG::PQTRANS_…
        def transaction_status
          return PG::PQTRANS_UNKNOWN if @closed || @lost
          return PG::PQTRANS_INTRANS if @opening
          @lease ? @lease.transaction_status : PG::PQTRANS_IDLE
        end

        # @return [Integer] PG::CONNECTION_OK or CONNECTION_BAD
        def status = (@closed || @lost) ? PG::CONNECTION_BAD : PG::CONNECTION_OK

        # @return [Boolean]
        def finished? = @closed

        # Closes it. The real connections stay open.
        # @return [void]
        def finish
          raise PG::ConnectionBad, "connection is closed" if @closed
          check_in
          @names.clear
          @closed = true
          @multiplexer.parted if @member
          nil
        end
        alias_method :close, :finish

        # @api private
        # @return [void]
        # @raise [PG::Error] if the server is unreachable
        def verify = @multiplexer.verify

        # Resets it to a new state: without a transaction or prepared statements.
        # @return [void]
        # @raise [PG::Error] if the server is unreachable
        def reset
          check_in
          verify # first: if it raises, the prepared statements stay
          @names.clear
          @multiplexer.joined if @closed && @member
          @closed = @lost = false
          @cluster = nil
          @session_defaults = SessionDefaults::EMPTY
        end
        alias_method :async_reset, :reset
        alias_method :sync_reset, :reset

        # @return [String] the error of its own last statement, or an empty one; never another fiber's
        def error_message = @lease&.tainted? ? @lease.native_or_not(&:error_message) : @error_message

        # From its lease, which shows what {#set} or a transaction has changed; else by its session defaults.
        # @param name [String]
        # @return [String, nil] the value that the server reports of a setting
        def parameter_status(name)
          return @lease.native_or_not { |pg| pg.parameter_status(name) } if @lease
          @multiplexer.sample(@session_defaults, whole: !@configuring, settings: Reported::NAMES & [name]) do |pg|
            pg.parameter_status(name)
          end
        end

        # Asks the server to cancel the running statement of its lease. A statement without a lease may share its
        # connection, and can't be cancelled so.
        # @return [String, nil] the error, if it could not be asked
        def cancel = @lease ? @lease.cancel : (ELSEWHERE if @sharing)
        alias_method :async_cancel, :cancel
        alias_method :sync_cancel, :cancel

        # Results of calls that wait or read, when there is nothing to wait for. During a COPY, or after a call that
        # sends only, the real connection is asked.
        {block: true, flush: true, discard_results: nil, get_result: nil,
         get_last_result: nil}.each do |name, otherwise|
          [name, :"async_#{name}", :"sync_#{name}"].intersection(PG::Connection.instance_methods).each do |form|
            define_method(form) do |*arguments, &block|
              @lease&.plain? ? in_hand(@lease) { |pg| pg.public_send(form, *arguments, &block) } : otherwise
            end
          end
        end

        # @return [false] calls wait for the end of the statement
        def isnonblocking = false
        alias_method :nonblocking?, :isnonblocking
        alias_method :async_isnonblocking, :isnonblocking
        alias_method :sync_isnonblocking, :isnonblocking

        # While it is configured, the encoding becomes a session default. Otherwise it taints a lease: pg remembers the
        # encoding of texts, and no command of the server resets that.
        # @param encoding [String]
        # @return [nil]
        def set_client_encoding(encoding)
          if @configuring && !@lease
            @session_defaults = @session_defaults.with_encoding(encoding)
          else
            lease = leased("set_client_encoding", session: "client_encoding #{encoding}")
            lease.leave_state("client_encoding #{encoding}")
            lease.taint
            in_hand(lease) { |pg| pg.set_client_encoding(encoding) }
          end
          nil
        end
        alias_method :client_encoding=, :set_client_encoding
        alias_method :async_set_client_encoding, :set_client_encoding
        alias_method :sync_set_client_encoding, :set_client_encoding

        # @return [Proc, nil] the one before
        def set_notice_receiver(&block)
          before, @notices = @notices, block
          before
        end

        # @return [Proc, nil] the one before
        def set_notice_processor(&block)
          set_notice_receiver(&block && ->(result) { block.call(result.error_message) })
        end

        # @return [String]
        def inspect = "#<#{@connection.class}#{" closed" if @closed}#{" has a connection for #{leased_for}" if @lease}>"

        private

        # @return [PG::Result, nil] nil: ask the server
        def local_result(sql, params, classification)
          return belongs(sql, params) if @configuring &&
            (classification.kind == :session || (classification.kind == :reset && classification.name == "all"))
          case classification.kind
          when :begin then begin_later(sql, classification)
          when :commit, :rollback then end_unbegun(classification)
          when :set then set(sql, classification)
          when :reset then (set(sql, classification) unless classification.name == "all") # SET … TO DEFAULT too
          when :deallocate then deallocate(classification)
          when :discard then discard(classification)
          when :unlisten then (done("UNLISTEN") unless @lease)
          when :empty
            (verify || @multiplexer.sample { |pg| pg.make_empty_pgresult(PG::PGRES_EMPTY_QUERY) } unless @lease)
          end
        end

        # Postpones a BEGIN. Within a transaction it is sent, so that the server warns.
        def begin_later(sql, classification)
          return if @opening || (@lease && @lease.transaction_status != PG::PQTRANS_IDLE)
          # This comes first: if it raises, there is no transaction.
          result = done(classification.reason.start_with?("START") ? "START TRANSACTION" : "BEGIN")
          check_open
          @before = @session_defaults
          @opening = sql
          result
        end

        # Ends a transaction without statements. PREPARE TRANSACTION has an effect even then, and is sent.
        def end_unbegun(classification)
          # While the lock is held, a statement is about to be sent.
          return if @opening.nil? || classification.reason == "PREPARE TRANSACTION" || @lease_lock.locked?
          @opening = nil
          @session_defaults = @before if classification.kind == :rollback # undoes settings that were configured in it
          done((classification.kind == :commit) ? "COMMIT" : "ROLLBACK")
        end

        # A statement that changes the session and is not a plain SET. During connect it becomes a session default too.
        def belongs(sql, params)
          unless params.empty?
            raise ConfigurationError, "#{sql[0, 200].inspect} while a connection is configured: it is repeated on " \
              "other connections, so it can't have parameters. Write their values into the statement"
          end
          @session_defaults = @session_defaults.with(sql)
          done("SET") if free_of_lease?
        end

        # Ends its lease if nothing depends on it: session defaults apply from the next connection on. A transaction, or
        # session state outside of a loop, keeps the lease.
        # @return [Boolean] whether it has no lease now
        def free_of_lease?
          check_in if @lease && @lease.state.nil? && @opening.nil? && @lease.transaction_status == PG::PQTRANS_IDLE
          @lease.nil?
        end

        def set(sql, classification)
          return if @lease && !@configuring
          if @configuring
            before, @session_defaults = @session_defaults,
              @session_defaults.with(sql, classification.name, classification.value)
            return unless @session_defaults.equal?(before) || free_of_lease?
          elsif !@session_defaults.set?(classification.name, classification.value)
            return
          end
          done(sql.match?(/\A\s*reset\b/i) ? "RESET" : "SET")
        end

        # Drops its prepared statements; those of SQL's PREPARE are in a lease.
        def deallocate(classification)
          return done("DEALLOCATE") if classification.name != "all" && give_up(classification.name)
          return unless classification.name == "all"
          @names.keys.each { |name| give_up(name) }
          done("DEALLOCATE ALL") unless @lease
        end

        def discard(classification)
          return unless classification.name == "all" && transaction_status == PG::PQTRANS_IDLE
          @names.clear
          check_in # the next connection has the session defaults
          done("DISCARD ALL")
        end

        # @param tag [String] command tag, if it was a statement
        # @return [PG::Result] an empty one with the status PGRES_COMMAND_OK
        def done(tag = "") = @multiplexer.local_result(tag)
      end
    end
  end
end
