# frozen_string_literal: true

module NeverBlock
  class MySQL
    # Ends statements on the server whose fibers have given them up: the limit of a timeout has passed, or the task was
    # cancelled. Otherwise the server would go on with them, and commit what they write, while their callers believe
    # that they have ended.
    #
    #   killer = Killer.new(connections)
    #   killer.call(connection)   # => true: the server has no such connection any more
    #
    # It ends the whole connection: the driver has closed its side when the statement was interrupted. The connection is
    # gone from the server's list when its transaction has been rolled back.
    # @api private
    class Killer
      include MonotonicClock

      # Seconds for the server to end a statement, and to be reached at all.
      LIMIT = 10
      REACH = 2
      # Seconds between two looks at the list: the first, and at most.
      PAUSE = 0.001
      LONGEST_PAUSE = 0.1
      # The server does not know the connection.
      NO_SUCH_THREAD = 1094
      private_constant :PAUSE, :LONGEST_PAUSE, :NO_SUCH_THREAD

      # @param connections [Connections]
      def initialize(connections)
        @connections = connections
        @killed = @unconfirmed = 0
      end

      # @return [Integer] statements that were ended
      attr_reader :killed
      # @return [Integer] statements of which it is not known
      attr_reader :unconfirmed

      # @param connection [Connection] a broken one
      # @return [Boolean] whether the server has ended it; false: it did not say so within {LIMIT}
      def call(connection)
        done = false
        NeverBlock.shield { done = finish(connection) }
        done
      ensure
        done ? @killed += 1 : @unconfirmed += 1
      end

      # The same for a fiber that Fiber#kill ends, and that can't wait any more: another task does it. Outside of loops
      # Thread#kill lets a thread wait.
      # @param connection [Connection] a broken one
      # @return [void]
      def later(connection)
        scheduler = Scheduler.current or return call(connection)
        scheduler.background { call(connection) }
      end

      private

      # Tries again while the server can't be reached, or has no connection left for this.
      def finish(connection)
        started = now
        pause = PAUSE
        until (ended = ended?(connection))
          return false if now - started > (ended.nil? ? REACH : LIMIT)
          sleep(pause)
          pause = [pause * 2, LONGEST_PAUSE].min
        end
        true
      end

      # @return [Boolean, nil] nil: the server did not say
      def ended?(connection)
        NeverBlock.timeout(REACH) do
          @connections.beside("KILL") do |control|
            next true if restarted?(control, connection)
            kill(control, connection)
            list = query(control, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = #{connection.id}")
            list.rows.first.first.to_i.zero?
          end
        end
      rescue # of any class: an adapter translates the driver's errors when it connects
        nil
      end

      # A server that has started since then may have given the number to another connection.
      def restarted?(control, connection)
        uptime = query(control, "SHOW GLOBAL STATUS LIKE 'Uptime'").rows.first.last.to_i
        uptime + 2 < now - connection.opened_at
      end

      def kill(control, connection)
        query(control, "KILL CONNECTION #{connection.id}")
      rescue Trilogy::Error => error
        raise unless error.error_code == NO_SUCH_THREAD
      end

      def query(control, sql) = control.query(sql, Trilogy::QUERY_FLAGS_DEFAULT)
    end
  end
end
