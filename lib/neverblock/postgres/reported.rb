# frozen_string_literal: true

module NeverBlock
  class Postgres
    # The settings that a server reports whenever they change, with the values that they must have on a shared
    # connection. Any change by a shared statement is a leak.
    #
    #   reported = Reported.new(pg)
    #   reported.accept      # the present values are the right ones
    #   reported.leak        # => "TimeZone was \"UTC\" and is \"Asia/Tokyo\""
    #
    # @api private
    class Reported
      NAMES = %w[
        application_name client_encoding DateStyle IntervalStyle TimeZone standard_conforming_strings
        session_authorization is_superuser default_transaction_read_only search_path
      ].map(&:freeze).freeze

      # Not reported by servers before 14.
      ROLE = "in_hot_standby"
      private_constant :ROLE

      # @param pg [PG::Connection]
      def initialize(pg)
        @pg = pg
        @accepted = {}
        @settings = []
        @names = [] # older servers report fewer
      end

      # @return [Array<String>] the settings that this server reports
      attr_reader :names

      # @return [void]
      def accept
        @accepted = NAMES.to_h { |name| [name, @pg.parameter_status(name)] }.compact
        @names = @accepted.keys
        @settings = [*@accepted.to_a.flatten, ROLE, @pg.parameter_status(ROLE)]
      end

      # @return [Boolean] whether the connection is in no transaction, all settings have the right values, and the
      #   server was not promoted
      def calm? = Driver.native? && Libpq.calm?(@pg, @settings)

      # @param names [Array<String>]
      # @return [String, nil] the first difference, in words
      def leak(names = @names)
        return if names.equal?(@names) && Driver.native? && Libpq.settings?(@pg, @settings)
        names.each do |name|
          return "#{name} was #{@accepted[name].inspect} and is #{@pg.parameter_status(name).inspect}" if differs?(name)
        end
        nil # find would make two objects for each statement
      end

      # @return [Array<String>] the settings that differ
      def leaks = @names.select { |name| differs?(name) }

      private

      def differs?(name) = @pg.parameter_status(name) != @accepted[name]
    end
  end
end
