# frozen_string_literal: true

module NeverBlock
  class Postgres
    # A result that is made without the server, with a command tag.
    #
    #   LocalResult.of("BEGIN", pg).cmd_status      # => "BEGIN"
    #
    # It is a plain PG::Result. A singleton class would make all results of the process slower to read: YJIT compiles no
    # calls of a class of which one object has singleton methods. Only without {Libpq} the result is extended; then each
    # tag has one result for all callers, which can neither be cleared nor frozen.
    # @api private
    module LocalResult
      # @param tag [String] the command tag
      # @param pg [PG::Connection]
      # @return [PG::Result] an empty one with the status PGRES_COMMAND_OK
      def self.of(tag, pg)
        result = pg.make_empty_pgresult(PG::PGRES_COMMAND_OK)
        Driver.native? ? Libpq.tag(result, tag) : result.extend(self).tap { |extended| extended.cmd_status = tag }
      end

      # @return [Boolean] whether callers may share one result for each tag
      def self.shared? = !Driver.native?

      # @return [String]
      attr_accessor :cmd_status

      # Does nothing: the result is shared, and tiny.
      # @return [nil]
      def clear = nil

      # @return [self]
      def freeze = self
    end
    private_constant :LocalResult
  end
end
