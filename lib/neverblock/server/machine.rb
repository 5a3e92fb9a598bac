# frozen_string_literal: true

module NeverBlock
  class Server
    # A state machine that is defined by a text table: what each event does in each state.
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
    # An action is a method of one of the actors, with underscores for blanks. Three actions need no method: "ignore";
    # "later", which repeats the event when the machine is serving (only the last such event); "never": the event can't
    # come in this state.
    # @api private
    class Machine
      IGNORE, LATER, NEVER = "ignore", "later", "never"
      # The state in which an event that was put off is done.
      REST = "serving"

      # The parsed table.
      class Table
        # @return [Array<String>]
        attr_reader :states

        # @param texts [Array<String>] lines with bars; the first line has the states, the first column the events,
        #   several with commas between them. A wide table is several texts, for one part of the states each
        # @raise [ArgumentError] if a cell is empty, or if the texts have different events
        def initialize(*texts)
          (_, *@states), _, *rows = texts.map { |text| parse(text) }.reduce { |left, right| beside(left, right) }
          rows.each { |event, *cells| check(event, cells) }
          @cells = rows.flat_map { |events, *cells|
            events.split(", ").map { |event| [event, @states.zip(cells.map { |cell| cell.split(" → ") }).to_h] }
          }.to_h
        end

        # @return [Array<String>]
        def events = @cells.keys

        # @return [Array(String, String), Array(String)] the action, and the next state, if it changes
        # @raise [KeyError] if there is no such event or state
        def cell(event, state) = @cells.fetch(event).fetch(state)

        private

        def parse(text) = text.lines.map { |line| line.strip.split("|", -1).map(&:strip)[1..-2] }

        def beside(left, right)
          unless left.map(&:first) == right.map(&:first)
            raise ArgumentError, "tables side by side need the same events in the same order, got " \
              "#{left.map(&:first).inspect} and #{right.map(&:first).inspect}"
          end
          left.zip(right).map { |row, (_event, *cells)| row + cells }
        end

        def check(event, cells)
          state = @states.zip(cells).find { |_, cell| cell.to_s.empty? }&.first or return
          raise ArgumentError, "#{event} in the state #{state}: an empty cell. Write an action, ignore or never"
        end
      end

      # @return [String]
      attr_reader :state

      # @param table [Table]
      # @param state [String] the first one
      # @param actors [Array<Object>] objects of which one has the method for each action
      def initialize(table, state, *actors)
        @table = table
        @state = state
        @actors = actors
      end

      # Does the action of an event, and changes the state.
      # @param event [String]
      # @param details [Array<Object>] arguments of the action
      # @return [void]
      # @raise [RuntimeError] if the table says that the event can't come
      def on(event, *details)
        action, following = @table.cell(event, @state)
        raise "#{event} came in the state #{@state}: its table says that it can't" if action == NEVER
        @later = [event, *details] if action == LATER
        @state = following if following
        act(action, event, details)
        catch_up if following && @state == REST
      end

      # @return [String, nil] the event that was put off
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
