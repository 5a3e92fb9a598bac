# frozen_string_literal: true

module NeverBlock
  class Postgres
    class VirtualConnection < PG::Connection
      # Passes a virtual connection's statements to the {Multiplexer}: by its fast path, or by the queue. Those of an
      # open transaction go to its lease, as the stock adapter would run them.
      # @api private
      module Sharing
        COMMIT = "COMMIT"
        private_constant :COMMIT

        private

        # The fast path.
        # @return [PG::Result, nil] nil: the statement goes by the queue
        def at_once(sql, params, format, encoders, classification, prepared)
          return unless @cluster && @notices.nil? && @policy.reads? && in_loop? && Array === params &&
            @multiplexer.at_once?(classification)
          check_cluster
          shape = classification.fingerprint
          read = if prepared
            Read.new(sql, params, format, encoders, shape, @session_defaults, prepared.key, prepared.at, prepared.types,
              @cluster)
          else
            Read.new(sql, params, format, encoders, shape, @session_defaults, nil, 0.0, nil, @cluster)
          end
          @sharing = true
          @multiplexer.fast_path.run(read)
        ensure
          if read
            @sharing = @pipelined = false
            @queue_time = read.statement ? read.statement.queue_time : 0.0
          end
        end

        # A statement of an open transaction, or its COMMIT.
        # @return [PG::Result, nil] nil: something is unusual, and it was not sent
        def in_transaction(sql, params, format, encoders, classification, prepared)
          lease = @lease
          return unless usual?(sql, classification) && Array === params && !lease.moved? &&
            doubt(sql, classification).nil?
          kind = classification.kind
          @wrote = true if kind == :write
          @queue_time = 0.0
          @pipelined = false
          read = if prepared
            Read.new(sql, params, format, encoders, nil, @session_defaults, prepared.key, prepared.at, prepared.types,
              @cluster, kind)
          else
            Read.new(sql, params, format, encoders, nil, @session_defaults, nil, 0.0, nil, @cluster, kind)
          end
          result = lease.ask(read)
        rescue Exception # standard:disable Lint/RescueException -- re-raised, with a note
          OutcomeNote.add($!) if kind == :commit && read&.statement&.effect_unknown?
          raise
        ensure
          statement = read&.statement
          lease.leave(statement) unless statement.nil? || statement.done?
          settled(lease, statement) if statement || (result && kind == :commit)
        end

        # A read of unknown duration goes another way, on which it is learnt.
        def usual?(sql, classification)
          return false if @opening || @notices || @unshared || @configuring
          return classification.kind == :commit && sql == COMMIT unless classification.plain
          classification.kind == :write || @multiplexer.timings.fast?(classification.fingerprint)
        end

        def share(statement)
          @sharing = true
          @multiplexer.run(statement)
        ensure
          @sharing = false
          @queue_time = statement.queue_time
          @pipelined = !statement.gathered.nil?
        end

        def statement(sql, params, format, encoders, classification, prepared)
          doubt = doubt(sql, classification)
          fingerprint = (classification.fingerprint if @policy.shares?(classification, doubt))
          key = prepared&.key unless @lease&.moved? # the name was prepared for the tables of other settings
          Statement.allocate.set_up(sql, params, session_defaults: @session_defaults, format:, encoders:,
            notices: @notices, cluster: @cluster, types: prepared&.types, key:, since: prepared ? prepared.at : 0.0,
            opening: @opening, fingerprint:, alone: !(fingerprint && @multiplexer.timings.fast?(fingerprint)),
            kind: classification.kind, doubt:,
            judged: @multiplexer.judges?(classification.kind) && !@lease&.discards?)
        end

        # Why a statement may leave session state. A lease that DISCARD ALL resets anyway does not ask.
        def doubt(sql, classification)
          return @multiplexer.catalogue&.doubt(sql, classification, @session_defaults) unless @lease
          unless @lease.discards?
            @multiplexer.catalogue&.doubt_held(sql, classification, @session_defaults,
              altering: !@lease.connection.altering.nil?)
          end
        end
      end
    end
  end
end
