# frozen_string_literal: true

module NeverBlock
  class Postgres
    # The settings that a server reports whenever they change, as they ought to be on a shared connection: whatever a shared statement
    # changes of them is a leak.
    #
    #   reported = Reported.new(pg)
    #   reported.accept      # what the server reports now is what they ought to be
    #   reported.leak        # => "TimeZone was \"UTC\" and is \"Asia/Tokyo\""
    #
    # @api private
    class Reported
      NAMES = %w[
        application_name client_encoding DateStyle IntervalStyle TimeZone standard_conforming_strings session_authorization
        is_superuser default_transaction_read_only search_path
      ].map(&:freeze).freeze

      # On a server before 14 there is none.
      ROLE = "in_hot_standby"
      private_constant :ROLE

      # @param pg [PG::Connection]
      def initialize(pg)
        @pg = pg
        @accepted = {}
        @settings = []
        @names = [] # older servers report fewer
      end

      # @return [Array<String>] those that this server reports
      attr_reader :names

      # @return [void]
      def accept
        @accepted = NAMES.to_h { |name| [name, @pg.parameter_status(name)] }.compact
        @names = @accepted.keys
        @settings = [*@accepted.to_a.flatten, ROLE, @pg.parameter_status(ROLE)]
      end

      # @return [Boolean] whether the connection is in no transaction, all settings are as they ought to be, and the server has the role
      #   that it had
      def calm? = Driver.native? && Libpq.calm?(@pg, @settings)

      # @param names [Array<String>]
      # @return [String, nil] the first that differs from that, in words
      def leak(names = @names)
        return if names.equal?(@names) && Driver.native? && Libpq.settings?(@pg, @settings)
        names.each { |name| return "#{name} was #{@accepted[name].inspect} and is #{@pg.parameter_status(name).inspect}" if differs?(name) }
        nil # find would make two objects for each statement
      end

      # @return [Array<String>] all that differ
      def leaks = @names.select { |name| differs?(name) }

      private

      def differs?(name) = @pg.parameter_status(name) != @accepted[name]
    end
  end
end
