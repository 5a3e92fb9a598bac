# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Makes tracers (OpenTelemetry, Datadog) work. They prepend modules to PG::Connection, which make a span of each
    # call. The classes of virtual connections get these modules too, so that each call of the application makes one
    # span. Calls on real connections bypass the modules: they belong to a call that has its span, or they are our own.
    #
    #   Tracers.adopt(VirtualConnection)   # prepends the modules that PG::Connection has got since the last time
    #   Tracers.any?                       # whether there is a tracer
    #   Tracers.hide(pg)                   # makes the calls on a real connection bypass them
    # @api private
    module Tracers
      # Methods that tracers wrap, and that we call on real connections.
      TRACED = %i[exec query exec_params prepare exec_prepared]
        .flat_map { |name| [name, :"async_#{name}", :"sync_#{name}"] }
        .intersection(PG::Connection.instance_methods).freeze

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
          @modules = PG::Connection.ancestors.take_while { |one| !one.equal?(PG::Connection) }
            .select { |one| TRACED.intersect?(one.instance_methods(false)) }
        end

        # @param pg [PG::Connection]
        # @return [PG::Connection] the same
        def hide(pg)
          look
          any? ? pg.extend(Hidden) : pg
        end

        # @param name [Symbol]
        # @return [UnboundMethod] pg's own
        def bare(name)
          method = PG::Connection.instance_method(name)
          method = method.super_method until method.owner.equal?(PG::Connection)
          method
        end
      end

      # Extends a real connection.
      module Hidden
        TRACED.each do |name|
          bare = Tracers.bare(name)
          define_method(name) do |*arguments, &block|
            @asked ? super(*arguments, &block) : bare.bind_call(self, *arguments, &block)
          end
        end

        # The virtual connection does not trace it, so the call within it is traced.
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
