# frozen_string_literal: true

module NeverBlock
  class FiberedConnectionPool
    # Runs statements in plain fibers, which wait in Fiber.yield until the program's own event loop goes on with them:
    #
    #   Fiber.new { pool.exec("select pg_sleep(1)", true) }.resume
    #   loop do
    #     readable, = IO.select(pool.sockets)
    #     readable.each { |socket| pool.process_command(socket) }
    #   end
    #
    # Inside NeverBlock.run, and on threads without fibers, it has nothing to do.
    # @api private
    class Driver
      # @param pool [ConnectionPool]
      def initialize(pool)
        @pool = pool
        @running = {}.compare_by_identity # socket => [connection, fiber]
        @line = []
      end

      # @return [Boolean] whether the calling fiber is one that a program resumes itself
      def drives? = Fiber.current_scheduler.nil? && !Fiber.current.blocking?

      # As {FiberedConnectionPool#hold}, of a fiber that holds none.
      def hold(transactional, &)
        until @pool.try_checkout
          @line << Fiber.current
          Fiber.yield
        end
        return @pool.with(&) if transactional
        begin
          @pool.with(&)
        ensure
          @pool.checkin(force: true)
          serve_next
        end
      end

      # @param connection [PG::Connection]
      # @param sql [String]
      # @return [PG::Result]
      # @raise [PG::Error]
      def exec(connection, sql)
        socket = connection.socket_io
        connection.send_query(sql)
        @running[socket] = [connection, Fiber.current]
        Fiber.yield
        connection.get_last_result
      ensure
        @running.delete(socket)
      end

      # @param socket [IO]
      # @return [void]
      def process_command(socket)
        connection, fiber = @running[socket]
        return unless connection
        connection.consume_input
        fiber.resume unless connection.is_busy
        nil
      end

      # Goes on with the fiber that has waited longest for a connection.
      # @return [void]
      def serve_next
        @line.shift&.resume
        nil
      end
    end
  end
end
