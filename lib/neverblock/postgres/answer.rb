# frozen_string_literal: true

module NeverBlock
  class Postgres
    # An answer that was made here, without the server, and says what was done as the server's does. All who ask get the same one,
    # so nobody can clear or freeze it: one for each would have a class of its own, for which YJIT throws away the code of all results.
    #
    #   Answer.of("BEGIN", pg).cmd_status      # => "BEGIN"
    #
    # @api private
    module Answer
      # @param tag [String] what was done
      # @param pg [PG::Connection]
      # @return [PG::Result] an empty one that says that all is well
      def self.of(tag, pg) = pg.make_empty_pgresult(PG::PGRES_COMMAND_OK).extend(self).tap { |result| result.cmd_status = tag }

      # @return [String]
      attr_accessor :cmd_status

      # It keeps next to nothing.
      # @return [nil]
      def clear = nil

      # @return [self]
      def freeze = self
    end
    private_constant :Answer
  end
end
