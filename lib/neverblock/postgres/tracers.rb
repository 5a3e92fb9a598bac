# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Tracers (OpenTelemetry, Datadog) prepend modules to PG::Connection, and make a span of each call. An application calls virtual
    # connections, which answer by themselves; so their classes get these modules too, and each call goes through them once. What
    # is sent on real connections goes by them: it was asked for by a call that has its span, or by nobody.
    #
    #   Tracers.adopt(VirtualConnection)   # what was prepended to PG::Connection since the last time
    #   Tracers.any?                       # whether there is one
    #   Tracers.hide(pg)                   # a real connection, which is ours
    # @api private
    module Tracers
      # What tracers make spans of, as far as real connections are asked by it.
      TRACED = %i[exec query exec_params prepare exec_prepared].flat_map { |name| [name, :"async_#{name}", :"sync_#{name}"] }.intersection(PG::Connection.instance_methods).freeze

      @modules = []
      @outermost = {}.compare_by_identity

      class << self
        # @return [Boolean]
        def any? = !@modules.empty?

        # @param kind [Class] of virtual connections
        # @return [void]
        def adopt(kind)
          outermost = PG::Connection.ancestors.first
          return if @outermost[kind].equal?(outermost)
          look
          @modules.reverse_each { |tracer| kind.prepend(tracer) }
          @outermost[kind] = outermost
        end

        # @return [void]
        def look
          @modules = PG::Connection.ancestors.take_while { |one| !one.equal?(PG::Connection) }.select { |one| TRACED.intersect?(one.instance_methods(false)) }
        end

        # @param pg [PG::Connection]
        # @return [PG::Connection] the same
        def hide(pg)
          look
          any? ? pg.extend(Hidden) : pg
        end

        # @param name [Symbol]
        # @return [UnboundMethod] of pg's own
        def bare(name)
          method = PG::Connection.instance_method(name)
          method = method.super_method until method.owner.equal?(PG::Connection)
          method
        end
      end

      # A real connection's.
      module Hidden
        TRACED.each do |name|
          bare = Tracers.bare(name)
          define_method(name) { |*arguments, &block| @asked ? super(*arguments, &block) : bare.bind_call(self, *arguments, &block) }
        end

        # What it executes is what was asked for, and no other call was.
        def copy_data(...)
          @asked = true
          super
        ensure
          @asked = false
        end
      end
    end
  end
end
