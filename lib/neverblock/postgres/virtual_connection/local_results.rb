# frozen_string_literal: true

module NeverBlock
  class Postgres
    class VirtualConnection < PG::Connection
      # What a virtual connection answers by itself, since it concerns nobody else: BEGIN, which goes out with the first statement;
      # settings of its session defaults; names of its own; its state.
      module LocalResults
        # What {#cancel} says of a statement that is none of a lease.
        ELSEWHERE = "the statement may share its connection, and is not cancelled by it: end its fiber's wait, by a timeout or Task#cancel"
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

        # Ends it. The real connections stay.
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
        # @raise [PG::Error] where the server is gone
        def verify = @multiplexer.verify

        # As new: without a transaction, without names.
        # @return [void]
        # @raise [PG::Error] where the server is gone
        def reset
          check_in
          verify # first: where it fails, the names are still in use
          @names.clear
          @multiplexer.joined if @closed && @member
          @closed = @lost = false
          @cluster = nil
          @session_defaults = SessionDefaults::EMPTY
        end
        alias_method :async_reset, :reset
        alias_method :sync_reset, :reset

        # @return [String] what the last statement of this one failed with, or nothing; never what another's did
        def error_message = @lease&.tainted? ? @lease.native_or_not(&:error_message) : @error_message

        # Of its own session defaults, unless it has a lease: what {#set} or a transaction has changed is seen there.
        # @param name [String]
        # @return [String, nil] what the server reports of a setting
        def parameter_status(name)
          return @lease.native_or_not { |pg| pg.parameter_status(name) } if @lease
          @multiplexer.sample(@session_defaults, whole: !@configuring, settings: Reported::NAMES & [name]) { |pg| pg.parameter_status(name) }
        end

        # Asks the server to give up what runs in a transaction or lease. What runs without one may be among the statements of others.
        # @return [String, nil] why not
        def cancel = @lease ? @lease.cancel : (ELSEWHERE if @sharing)
        alias_method :async_cancel, :cancel
        alias_method :sync_cancel, :cancel

        # What is said where nothing is left to be waited for or read. In the midst of a COPY, or of what user's code has sent by
        # itself, the real connection is asked.
        {block: true, flush: true, discard_results: nil, get_result: nil, get_last_result: nil}.each do |name, otherwise|
          [name, :"async_#{name}", :"sync_#{name}"].intersection(PG::Connection.instance_methods).each do |form|
            define_method(form) { |*arguments, &block| @lease&.plain? ? in_hand(@lease) { |pg| pg.public_send(form, *arguments, &block) } : otherwise }
          end
        end

        # @return [false] whoever calls waits for the end of what he asks for
        def isnonblocking = false
        alias_method :nonblocking?, :isnonblocking
        alias_method :async_isnonblocking, :isnonblocking
        alias_method :sync_isnonblocking, :isnonblocking

        # While it is configured that is of its session defaults. Otherwise the real connection serves nobody else afterwards: pg remembers what it
        # takes texts for, which nothing of the server's resets.
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

        # @return [PG::Result, nil] nil: the server is to be asked
        def local_result(sql, params, classification)
          return belongs(sql, params) if @configuring && (classification.kind == :session || (classification.kind == :reset && classification.name == "all"))
          case classification.kind
          when :begin then begin_later(sql, classification)
          when :commit, :rollback then end_unbegun(classification)
          when :set then set(sql, classification)
          when :reset then (set(sql, classification) unless classification.name == "all") # SET … TO DEFAULT too
          when :deallocate then deallocate(classification)
          when :discard then discard(classification)
          when :unlisten then (done("UNLISTEN") unless @lease)
          when :empty then (verify || @multiplexer.sample { |pg| pg.make_empty_pgresult(PG::PGRES_EMPTY_QUERY) } unless @lease)
          end
        end

        # BEGIN in a transaction is the server's to complain about.
        def begin_later(sql, classification)
          return if @opening || (@lease && @lease.transaction_status != PG::PQTRANS_IDLE)
          result = done(classification.reason.start_with?("START") ? "START TRANSACTION" : "BEGIN") # which may fail: then there is none
          check_open
          @before = @session_defaults
          @opening = sql
          result
        end

        # A transaction in which nothing was done. PREPARE TRANSACTION makes something even of that.
        def end_unbegun(classification)
          return if @opening.nil? || classification.reason == "PREPARE TRANSACTION" || @lease_lock.locked? # something is about to be done
          @opening = nil
          @session_defaults = @before if classification.kind == :rollback # and what was configured in it
          done((classification.kind == :commit) ? "COMMIT" : "ROLLBACK")
        end

        # What changes a session for good, and is no plain SET: done while an adapter connects, it is part of the session defaults too.
        def belongs(sql, params)
          raise ConfigurationError, "#{sql[0, 200].inspect} while a connection is configured: it is done again on others, so it takes no parameters. Write their values into it" unless params.empty?
          @session_defaults = @session_defaults.with(sql)
          done("SET") if free_of_lease?
        end

        # What it has for itself, outside of a loop or in a transaction, is not configured so. Where nothing depends on that one, the next
        # will be.
        # @return [Boolean] whether it has none now
        def free_of_lease?
          check_in if @lease && @lease.state.nil? && @opening.nil? && @lease.transaction_status == PG::PQTRANS_IDLE
          @lease.nil?
        end

        def set(sql, classification)
          return if @lease && !@configuring
          if @configuring
            before, @session_defaults = @session_defaults, @session_defaults.with(sql, classification.name, classification.value)
            return unless @session_defaults.equal?(before) || free_of_lease?
          elsif !@session_defaults.set?(classification.name, classification.value)
            return
          end
          done(sql.match?(/\A\s*reset\b/i) ? "RESET" : "SET")
        end

        # Names that SQL has given live in a lease.
        def deallocate(classification)
          return done("DEALLOCATE") if classification.name != "all" && give_up(classification.name)
          return unless classification.name == "all"
          @names.keys.each { |name| give_up(name) }
          done("DEALLOCATE ALL") unless @lease
        end

        def discard(classification)
          return unless classification.name == "all" && transaction_status == PG::PQTRANS_IDLE
          @names.clear
          check_in # what is as new has the session defaults
          done("DISCARD ALL")
        end

        # @param tag [String] what was done, where that is a statement
        # @return [PG::Result] an empty one that says that all is well
        def done(tag = "") = @multiplexer.local_result(tag)
      end
    end
  end
end
