# frozen_string_literal: true

module NeverBlock
  class Postgres
    # What the server reports of a shared connection's settings is no longer what they ought to be: by a statement that has left
    # something, or by a reload of the server's configuration, which no statement is to blame for. The connection itself is asked, and until
    # it has answered no result is told: one that came from behind a leak is another session's.
    #
    #   inquiry = Inquiry.new(["TimeZone"], "TimeZone was …", statements)
    #   inquiry.question           # a statement, to be sent behind all others
    #   inquiry.hold(later)        # what was answered meanwhile
    #   inquiry.leak?              # when the question was answered
    # @api private
    class Inquiry
      # What no reload changes.
      OF_SESSION = %w[session_authorization is_superuser].freeze
      private_constant :OF_SESSION

      # @param connection [PipelinedConnection]
      # @param names [Array<String>] of settings that differ
      # @return [Boolean] whether a reload may have changed them: what the session defaults set, a session has of its own
      def self.open?(connection, names)
        names.none? { |name| OF_SESSION.include?(name) || connection.session_defaults.settings.key?(name) || connection.session_defaults.settings.key?(name.downcase) }
      end

      # @return [Statement]
      attr_reader :question
      # @return [Array<Statement>] those that are not told of their answers yet
      attr_reader :held
      # @return [String] the difference, in words
      attr_reader :what

      # @param names [Array<String>]
      # @param what [String]
      # @param statements [Array<Statement>]
      def initialize(names, what, statements)
        @what = what
        @held = statements
        quoted = names.map { |name| "'#{name.downcase}'" }.join(", ")
        @question = Statement.orphan("select 1 from pg_catalog.pg_settings where source = 'session' and lower(name) in (#{quoted})")
      end

      # @param statements [Array<Statement>]
      # @return [void]
      def hold(statements) = @held.concat(statements)

      # @return [Boolean] also where the question was refused
      def leak? = !question.error.nil? || question.result.nil? || question.result.ntuples > 0
    end
  end
end
