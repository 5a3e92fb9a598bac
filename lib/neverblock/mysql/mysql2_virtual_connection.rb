# frozen_string_literal: true

require "forwardable"
require_relative "mysql2_client"
require_relative "virtual_connection"

module NeverBlock
  class MySQL
    # What the adapters for mysql2 hold: a {VirtualConnection} with the methods of a Mysql2::Client, and its errors.
    #
    #   connection = Mysql2VirtualConnection.new(database.connection, {as: :array})
    #   connection.query("select 1").to_a    # => [[1]]
    class Mysql2VirtualConnection
      extend Forwardable

      # @api private
      # @param connection [VirtualConnection]
      # @param options [Hash{Symbol=>Object}] of Mysql2::Client.new
      def initialize(connection, options = {})
        @session = connection.session
        @query_options = Mysql2::Client.default_query_options.merge(options)
      end

      # @return [Hash{Symbol=>Object}] of each query, and of connecting, as a client of mysql2 has them
      attr_reader :query_options

      def_delegators :@session, :affected_rows, :warning_count, :closed?, :close, :check_in, :in_transaction?,
        :changed?, :pinned_for, :aside, :without_multiplexing, :configure, :configuring, :configured, :discard!,
        :queue_time
      # @return [Integer]
      def_delegator :@session, :last_insert_id, :last_id
      # @return [Boolean]
      def_delegator :@session, :more_results_exist?, :more_results?

      # @param sql [String]
      # @param options [Hash{Symbol=>Object}] of mysql2's; `stream:` is ignored
      # @return [Mysql2::Result, nil]
      # @raise [Mysql2::Error] the server's; {OutcomeUnknown}, {SessionLost}
      def query(sql, options = {})
        @session.query_flags = {**@query_options, **options}
        raw(translated { @session.query(sql) })
      end

      # @raise [UnsupportedError] the statement would be one of a real connection
      def prepare(_sql)
        raise UnsupportedError, "statements that are prepared on the server belong to one connection, and these are " \
          "shared. Leave prepared_statements: out, or use adapter: mysql2"
      end

      # @return [Boolean]
      def next_result
        @next = translated { @session.next_result }
        !@next.nil?
      end

      # @return [Mysql2::Result, nil]
      def store_result = raw(@next)

      # @return [nil]
      def abandon_results!
        translated { @session.abandon_results! } if more_results?
        nil
      end

      # @return [Boolean] whether the server can be reached
      def ping
        @session.ping
      rescue Trilogy::Error, Mysql2::Error
        false
      end

      # Opens a real connection, unless there is one, so that errors of connecting are raised here.
      # @return [true]
      # @raise [Mysql2::Error]
      def ready = translated { @session.ready }

      # @param string [String]
      # @return [String]
      def escape(string)
        escaped = translated { @session.escape(string) }
        (string.encoding == Encoding::BINARY && escaped.bytesize == string.bytesize) ? string : escaped
      end

      # @param name [String]
      # @return [void]
      def select_db(name) = translated { @session.change_db(name) }

      # @param option [Integer] Mysql2::Client::OPTION_…
      # @return [true]
      def set_server_option(option) = translated { @session.set_server_option(option) }

      # @return [Hash{Symbol=>Object}]
      def server_info
        version = @session.server_version
        {id: version[/\d+\.\d+\.\d+/].split(".").inject(0) { |id, part| id * 100 + part.to_i }, version:}
      end

      # Active Record calls it in forked children: they send nothing.
      def automatic_close=(automatic)
        discard! unless automatic
      end

      private

      def raw(result) = (Mysql2Client::Result === result) ? result.raw : nil

      # The errors of mysql2 are causes of those that the shared code knows.
      def translated
        yield
      rescue OutcomeUnknown, SessionLost
        raise
      rescue Trilogy::Error => error
        raise error.cause if Mysql2::Error === error.cause
        raise Mysql2::Error::ConnectionError, error.message
      end
    end
  end
end
