# frozen_string_literal: true

module NeverBlock
  class Postgres
    # An answer that was made here, without the server, and says what was done as the server's does.
    #
    #   LocalResult.of("BEGIN", pg).cmd_status      # => "BEGIN"
    #
    # It has the class of all results, and no other of its own: for a class of which one object has its own, YJIT compiles no call of a
    # method any more, and so every result of the process would be slower to read. Only where libpq cannot be asked ({Libpq}) is it so; then
    # all that ask get the same answer, which none can clear or freeze.
    # @api private
    module LocalResult
      # @param tag [String] what was done
      # @param pg [PG::Connection]
      # @return [PG::Result] an empty one that says that all is well
      def self.of(tag, pg)
        result = pg.make_empty_pgresult(PG::PGRES_COMMAND_OK)
        Driver.native? ? Libpq.tag(result, tag) : result.extend(self).tap { |extended| extended.cmd_status = tag }
      end

      # @return [Boolean] whether one serves all
      def self.shared? = !Driver.native?

      # @return [String]
      attr_accessor :cmd_status

      # It keeps next to nothing.
      # @return [nil]
      def clear = nil

      # @return [self]
      def freeze = self
    end
    private_constant :LocalResult
  end
end
