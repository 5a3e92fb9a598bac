# frozen_string_literal: true

require_relative "virtual_connection/session"

module NeverBlock
  class Postgres
    # Makes a subclass of PG::Connection a class of virtual connections, for Active Record, Sequel and user code. Each
    # looks like an exclusive connection. It takes a place on a real connection for each statement, and a lease for a
    # transaction or session state. All calls go to its {VirtualConnection::Session}.
    #
    #   connection = Virtual.open(VirtualConnection, multiplexer, classifier)
    #   connection.exec("select 1")          # shared, in a loop
    #   connection.exec("BEGIN")             # nothing is sent yet
    #   connection.exec("insert ...")        # a lease: BEGIN and this statement are sent together
    #   connection.exec("COMMIT")            # the lease ends
    #   connection.check_in                  # here at the latest
    #
    # Outside of a loop it has a lease from its first statement to {VirtualConnection::Session#check_in}.
    module Virtual
      # @api private
      # @param kind [Class] of PG::Connection, with this module
      # @param multiplexer [Multiplexer]
      # @param classifier [Classifier]
      # @param policy [SharingPolicy]
      # @param member [Boolean] whether real connections stay open until it is closed
      # @return [Virtual]
      def self.open(kind, multiplexer, classifier, policy: SharingPolicy.new(:reads), member: false)
        Tracers.adopt(kind)
        kind.allocate.tap do |connection|
          session = VirtualConnection::Session.new(connection, multiplexer, classifier, policy, member)
          connection.instance_variable_set(:@session, session)
        end
      end

      # @see VirtualConnection::Session#exec
      # @return [PG::Result]
      def exec(sql, params = nil, format = 0, encoders = nil, &) = @session.exec(sql, params, format, encoders, &)

      # @see VirtualConnection::Session#exec_params
      # @return [PG::Result]
      def exec_params(sql, params = nil, format = 0, encoders = nil, &)
        @session.exec_params(sql, params, format, encoders, &)
      end

      # @see VirtualConnection::Session#exec_prepared
      # @return [PG::Result]
      def exec_prepared(name, params = Statement::NONE, format = 0, encoders = nil, &)
        @session.exec_prepared(name, params, format, encoders, &)
      end

      %i[async_exec sync_exec query async_query].each { |name| alias_method name, :exec }
      %i[async_exec_params sync_exec_params].each { |name| alias_method name, :exec_params }
      %i[async_exec_prepared sync_exec_prepared].each { |name| alias_method name, :exec_prepared }

      # Resets it to a new state: without a transaction or prepared statements.
      # @return [self]
      # @raise [PG::Error] if the server is unreachable
      def reset
        @session.reset
        self
      end
      alias_method :async_reset, :reset
      alias_method :sync_reset, :reset

      # All other methods of a session.
      parts = %i[Session LocalResults Delegation Unshared].map { |name| VirtualConnection.const_get(name) }
      others = parts.flat_map { |part| part.public_instance_methods(false) } - instance_methods(false)
      others.each do |name|
        next define_method(name) { |value| @session.public_send(name, value) } if name.end_with?("=")
        # "..." is slower.
        parameters = VirtualConnection::Session.instance_method(name).parameters.empty? ? "&" : "..."
        class_eval("def #{name}(#{parameters}) = @session.#{name}(#{parameters})", __FILE__, __LINE__)
      end
    end

    # The class of virtual connections without an ORM.
    class VirtualConnection < PG::Connection
      include Virtual
    end
  end
end
