# frozen_string_literal: true

module NeverBlock
  class Postgres
    class VirtualConnection < PG::Connection
      # Passes a virtual connection's statements to the {Multiplexer}: by its fast path, or by the queue.
      # @api private
      module Sharing
        private

        # The fast path. It needs no copy of the parameters, since the statement is sent before any other fiber runs.
        # @return [PG::Result, nil] nil: the statement goes by the queue
        def at_once(sql, params, format, encoders, classification, prepared)
          return unless @cluster && @policy.placed?(classification) && in_loop? && @multiplexer.at_once?(classification)
          check_cluster
          statement = Statement.allocate.set_up(Statement.own(sql), params, session_defaults: @session_defaults,
            format:, encoders:, notices: @notices, cluster: @cluster, types: prepared&.types,
            key: prepared&.key, since: prepared ? prepared.at : 0.0, fingerprint: classification.fingerprint)
          @sharing = true
          @multiplexer.run_at_once(statement)
        ensure
          if statement
            @sharing = @pipelined = false
            @queue_time = statement.queue_time
          end
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
            kind: classification.kind, doubt:)
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
