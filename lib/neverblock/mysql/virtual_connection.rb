# frozen_string_literal: true

require_relative "session"

module NeverBlock
  class MySQL
    # What adapters and users hold: it looks like a Trilogy of one's own, and takes real connections when it needs them.
    #
    #   connection = database.connection
    #   connection.query("select 1")              # any connection
    #   connection.query("BEGIN")                 # one, from here on …
    #   connection.query("insert into users …")
    #   connection.query("COMMIT")                # … to here
    #   connection.close
    #
    # All calls go to its {Session}.
    class VirtualConnection < Trilogy
      # @api private
      # @param database [MySQL]
      def initialize(database) # standard:disable Lint/MissingSuper -- the superclass would connect
        @session = Session.new(database)
      end

      # @api private
      # @return [Session]
      attr_reader :session

      # @param sql [String]
      # @return [Trilogy::Result]
      # @raise [Trilogy::Error] the server's error; {OutcomeUnknown}, {SessionLost}
      # @raise [PoolTimeout] if no connection was free in time
      def query(sql) = @session.query(sql)

      # @return [String]
      def connected_host = query_with_flags("select @@hostname", query_flags | QUERY_FLAGS_FLATTEN_ROWS).rows.first

      # @return [String]
      def inspect
        purpose = pinned_for
        "#<#{self.class}#{" closed" if closed?}#{" with a connection, for #{purpose}" if purpose}>"
      end

      # All other methods of a session.
      (Session.public_instance_methods(false) - %i[query held held= kept?]).each do |name|
        next define_method(name) { |value| @session.public_send(name, value) } if name.end_with?("=")
        # "..." is slower.
        parameters = Session.instance_method(name).parameters.empty? ? "&" : "..."
        class_eval("def #{name}(#{parameters}) = @session.#{name}(#{parameters})", __FILE__, __LINE__)
      end
    end
  end
end
