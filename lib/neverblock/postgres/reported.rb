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

      # Seconds after a comparison until the next, where shared statements reach built-in functions alone.
      COMPARED_FOR = 0.02

      # @param pg [PG::Connection]
      # @param always [Boolean] whether the values are compared after each statement, since it may call functions that
      #   the user has named as shareable
      def initialize(pg, always: true)
        @pg = pg
        @compared_for = always ? 0.0 : COMPARED_FOR
        @calm_until = 0.0
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
        @calm_until = 0.0
        @settings = [*@accepted.to_a.flatten, ROLE, @pg.parameter_status(ROLE)]
      end

      # A shared read can't change a setting, since {Reach} and {Classifier} know all that it calls. The comparison is a
      # second net, so it need not follow each.
      # @param time [Float] now, on the monotonic clock
      # @return [Boolean] whether the connection is in no transaction, and a moment ago all settings had the right
      #   values, and the server was not promoted
      def calm?(time)
        return same?(Statement::NONE) if time < @calm_until
        same?(@settings) && (@calm_until = time + @compared_for) && true
      end

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

      def same?(settings)
        return Libpq.calm?(@pg, settings) if Driver.native?
        @pg.transaction_status == PG::PQTRANS_IDLE &&
          settings.each_slice(2).all? { |name, value| @pg.parameter_status(name) == value }
      end

      def differs?(name) = @pg.parameter_status(name) != @accepted[name]
    end
  end
end
