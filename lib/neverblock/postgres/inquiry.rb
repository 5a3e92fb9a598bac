# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Finds out why a reported setting of a shared connection has changed: a statement has left session state, or the
    # server's configuration was reloaded. It asks the connection itself. Until the result arrives no other result is
    # delivered, since the statements behind a leak ran with settings that another statement had changed.
    #
    #   inquiry = Inquiry.new(["TimeZone"], "TimeZone was …", statements)
    #   inquiry.question           # a statement, sent behind all others
    #   inquiry.hold(later)        # keeps the statements whose results arrive meanwhile
    #   inquiry.leak?              # after the result of the question
    # @api private
    class Inquiry
      # Settings that no reload changes.
      OF_SESSION = %w[session_authorization is_superuser].freeze
      private_constant :OF_SESSION

      # @param connection [PipelinedConnection]
      # @param names [Array<String>] settings that differ
      # @return [Boolean] whether a reload may have changed them; it changes no setting that the session defaults set
      def self.open?(connection, names)
        settings = connection.session_defaults.settings
        names.none? { |name| OF_SESSION.include?(name) || settings.key?(name) || settings.key?(name.downcase) }
      end

      # @return [Statement]
      attr_reader :question
      # @return [Array<Statement>] those whose results are not delivered yet
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
        @question = Statement
          .orphan("select 1 from pg_catalog.pg_settings where source = 'session' and lower(name) in (#{quoted})")
      end

      # @param statements [Array<Statement>]
      # @return [void]
      def hold(statements) = @held.concat(statements)

      # @return [Boolean] whether a statement has changed the setting; also true if the question has failed
      def leak? = !question.error.nil? || question.result.nil? || question.result.ntuples > 0
    end
  end
end
