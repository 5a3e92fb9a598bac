# frozen_string_literal: true

module NeverBlock
  class Server
    # A state machine whose table is written as a table: what each event does in each state.
    #
    #   table = Machine::Table.new(<<~TABLE)
    #     | event | serving          | draining    |
    #     | ----- | ---------------- | ----------- |
    #     | TERM  | drain → draining | escalate    |
    #     | HUP   | reopen logs      | reopen logs |
    #   TABLE
    #   machine = Machine.new(table, "serving", supervisor)
    #   machine.on("TERM")      # its state is "draining"; then supervisor.drain
    #
    # An action is a method of one of the actors, its blanks underscores. Three need none: "ignore"; "later", which is done when
    # the machine is serving (of several, the last one); and "never": the event can't come in this state.
    # @api private
    class Machine
      IGNORE, LATER, NEVER = "ignore", "later", "never"
      # The state that ends the waiting of what was to be done later.
      REST = "serving"

      # The table, read.
      class Table
        # @return [Array<String>]
        attr_reader :states

        # @param text [String] lines with bars; states are in the first one, events in the first column, several with commas
        #   between them
        # @raise [ArgumentError] where a cell is empty
        def initialize(text)
          (_, *@states), _, *rows = text.lines.map { |line| line.strip.split("|", -1).map(&:strip)[1..-2] }
          rows.each { |event, *cells| check(event, cells) }
          @cells = rows.flat_map { |events, *cells|
            events.split(", ").map { |event| [event, @states.zip(cells.map { |cell| cell.split(" → ") }).to_h] }
          }.to_h
        end

        # @return [Array<String>]
        def events = @cells.keys

        # @return [Array(String, String), Array(String)] an action, and the state that it begins, if it does
        # @raise [KeyError] where there is no such event, or no such state
        def cell(event, state) = @cells.fetch(event).fetch(state)

        private

        def check(event, cells)
          state = @states.zip(cells).find { |_, cell| cell.to_s.empty? }&.first or return
          raise ArgumentError, "#{event} in the state #{state}: an empty cell. Write an action, ignore or never"
        end
      end

      # @return [String]
      attr_reader :state

      # @param table [Table]
      # @param state [String] the first one
      # @param actors [Array<Object>] of which one has the method for each action
      def initialize(table, state, *actors)
        @table = table
        @state = state
        @actors = actors
      end

      # Something has come to pass.
      # @param event [String]
      # @param details [Array<Object>] for the action
      # @return [void]
      # @raise [RuntimeError] if it can't have
      def on(event, *details)
        action, following = @table.cell(event, @state)
        raise "#{event} came in the state #{@state}: its table says that it can't" if action == NEVER
        @later = [event, *details] if action == LATER
        @state = following if following
        act(action, event, details)
        catch_up if @state == REST
      end

      # @return [String, nil] the event that is done later
      def waiting = @later&.first

      private

      def act(action, event, details)
        return if action == IGNORE
        return @actors.first.later(event) if action == LATER
        name = action.tr(" ", "_")
        @actors.find { |actor| actor.respond_to?(name) }.public_send(name, *details)
      end

      def catch_up
        later, @later = @later, nil
        on(*later) if later
      end
    end
  end
end
