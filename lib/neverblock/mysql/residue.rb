# frozen_string_literal: true

require_relative "saved_insert_id"

module NeverBlock
  class MySQL
    # What the statements of one session have left in its connection for later ones: LAST_INSERT_ID(), ROW_COUNT(),
    # FOUND_ROWS(), warnings. A session changes its connection, and finds values of other sessions on the next one. So
    # before a statement reads such a value, this makes sure that it is the session's own.
    #
    #   residue = Residue.new
    #   residue.took                                   # a connection, in which others have left something
    #   residue.ran(7)                                 # an INSERT: the server has told its number
    #   residue.prepare(connection, classification)    # LAST_INSERT_ID() is 7, or what the session had before
    # @api private
    class Residue
      # Numbers that are remembered.
      MOST = 100

      # Values that only the connection of the statement before has. A new one has those of a read without warnings, but
      # for its number of rows.
      ROWS = /ROW_COUNT|FOUND_ROWS|WARNING|ERROR/
      READ_ROWS = /FOUND_ROWS/
      IDS = /LAST_INSERT_ID|IDENTITY/
      private_constant :MOST, :ROWS, :READ_ROWS, :IDS

      def initialize
        @ids = []
        reset
      end

      # The session has ended, and another begins.
      # @return [void]
      def reset
        @before = 0
        @parked = @lost = nil
        took
      end

      # The session has a connection from now on.
      # @return [void]
      def took
        @ids = [] unless @ids.empty?
        @owned = @forgotten = false
        @fresh = true
      end

      # A statement was executed on it.
      # @param id [Integer, nil] that the server has told: of an INSERT, whether it was generated or given
      # @return [void]
      def ran(id)
        @fresh = false
        return unless id && id > 0
        @ids << id
        @forgotten ||= !@ids.shift.nil? if @ids.size > MOST
      end

      # A read without warnings was executed on a connection that others have now.
      # @return [void]
      def left = @lost = READ_ROWS

      # The connection is parked: others may take it.
      # @return [SavedInsertId, nil] for those; nil: there is nothing in it of the session's
      def park = @parked = (SavedInsertId.new(@before, @ids, owned: @owned) if @owned || @ids.any?)

      # Others have taken it.
      # @return [void]
      def displaced
        @before = @parked if @parked
        @lost = ROWS
      end

      # The connection was lost, with all that was in it.
      # @return [void]
      def forget
        @before = nil if @owned || @ids.any?
        @lost = ROWS
      end

      # @param connection [Connection] the session's
      # @param classification [Classification] of a statement that reads such values, or may do so
      # @return [void]
      # @raise [SessionLost] if a value can't be had
      def prepare(connection, classification)
        refuse(classification) if @fresh && @lost&.match?(classification.residue)
        return if @owned || !(@fresh || classification.leaves_state? || IDS.match?(classification.residue))
        refuse(classification) if !@fresh && ROWS.match?(classification.residue)
        own(connection, classification)
      end

      private

      # Without a statement of the session's own there is nothing to ask for.
      def own(connection, classification)
        id = connection.insert_id unless @ids.empty?
        unless @ids.include?(id)
          before = (SavedInsertId === @before) ? @before.value : @before
          refuse(classification) if before.nil? || @forgotten
          connection.wash(before)
        end
        @owned = true
      end

      def refuse(classification)
        raise SessionLost, "#{classification.reason}, and the connection of the statement before was given to " \
          "another fiber, or has served one. Put both into a transaction, or into without_multiplexing { }"
      end
    end
  end
end
