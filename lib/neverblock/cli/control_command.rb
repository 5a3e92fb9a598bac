# frozen_string_literal: true

require "json"
require "optparse"
require "socket"
require_relative "../runtime/monotonic_clock"
require_relative "../server"
require_relative "files"

module NeverBlock
  class CLI
    # neverblock stop, restart, reload, reopen and status: sends the command to the control socket that the
    # configuration names. stop waits until the server's process has ended, restart and reload until the new app serves
    # or loading it has failed.
    #
    #   ControlCommand.new("status", []).call   # => 0
    # @api private
    class ControlCommand
      include MonotonicClock

      # Seconds for a response. Commands in WAITING have no limit: they take as long as the last request, or as loading
      # the app.
      LIMIT = 10
      # Commands that wait for their result.
      WAITING = %w[stop restart reload].freeze
      # Raised when the connection ends without a response.
      Gone = Class.new(UnreachableError)
      private_constant :Gone
      # Seconds between two checks whether a process has ended.
      LOOK = 0.02

      COMMANDS = {
        "stop" => "stop the server when running requests have ended",
        "restart" => "replace the server and its workers without losing a request",
        "reload" => "load the app again and replace the workers one by one",
        "reopen" => "open the log files again after they were renamed",
        "status" => "show what the server and its workers are doing"
      }.freeze

      # Added to the help.
      SINGLE = "With workers 0 the process goes on if the configuration has a mistake. Otherwise it finishes its " \
        "requests and\nstarts again: if the app can't be loaded, it ends."
      NOTES = {
        "restart" => SINGLE,
        "reload" => SINGLE,
        "stop" => "If the server is being stopped already, the command only waits."
      }.freeze
      private_constant :SINGLE

      # @param command [String] one of COMMANDS
      # @param arguments [Array<String>]
      # @param out [IO]
      def initialize(command, arguments, out: $stdout)
        @command = command
        @arguments = arguments
        @out = out
        @files = Files.new
      end

      # @return [Integer] the exit status
      # @raise [ConfigurationError]
      # @raise [UnreachableError]
      def call
        parse
        return OK if @answered
        status, body = (@command.start_with?("re") && @command != "reopen" && !@at_once) ? load_anew : ask(target)
        case status
        when 202 then tell("#{@command}: #{body.strip}; the error log will have the result")
        when 200 then done(body)
        when 500 then raise UnreachableError, "#{@command}: #{body.strip}"
        else raise UnreachableError, "#{path} answered #{status}: #{body.strip}"
        end
      end

      private

      def parse
        parser = OptionParser.new("Usage: neverblock #{@command} [options]") do |options|
          @files.options(options)
          options.on("--control PATH", "the control socket, if no configuration names it") { |name| @path = name }
          options.on("--json", "the numbers as JSON") { @json = true } if @command == "status"
          if WAITING.include?(@command)
            options.on("--no-wait", "return at once; the error log will have the result") { @at_once = true }
          end
          options.on("--now", "cancel running requests") { @now = true } if @command == "stop"
          options.on("-h", "--help", "this text") do
            @out.puts(options, *("\n#{NOTES[@command]}" if NOTES[@command]))
            @answered = true
          end
        end
        rest = parser.parse(@arguments)
        return if rest.empty?
        raise ConfigurationError, "#{rest.join(" ")}: #{@command} takes options alone. " \
          "neverblock #{@command} --help lists them"
      rescue OptionParser::ParseError => error
        raise ConfigurationError, "#{error.message}. neverblock #{@command} --help lists the options", cause: nil
      end

      def path
        @path ||= configuration[:control] ||
          raise(ConfigurationError, "no control socket is configured. Write control \"tmp/neverblock.sock\" into " \
            "#{Server::Configuration::FILE}, or name it: neverblock #{@command} --control PATH")
      end

      def configuration
        Server::Configuration.new.tap { |configuration| @files.load(configuration) }
      rescue ConfigurationError => error
        raise ConfigurationError, "#{error.message}\nThe server was not asked. To ask it, give its control socket: " \
          "--control PATH", cause: nil
      end

      def done(body)
        case @command
        when "status" then status(body)
        when "stop" then stopped(body.strip)
        else tell("#{@command}: #{body.strip}")
        end
      end

      # The server's program may be replaced during the wait; the new one has the result then.
      # @return [Array(Integer, String)] status and body
      def load_anew
        answer = ask(target)
        (answer.first == 409) ? follow : answer
      rescue Gone
        follow
      end

      def follow
        while @pid && runs?(@pid)
          begin
            answer = ask("GET /last-load")
            return answer if [200, 500].include?(answer.first)
          rescue UnreachableError
            nil # it does not listen yet
          end
          sleep LOOK
        end
        raise UnreachableError, "#{@command}: the server has ended. Its error log or its standard error has the reason"
      end

      # @return [Integer] 1 if no worker serves
      def status(body)
        stats = JSON.parse(body, symbolize_names: true)
        tell(@json ? body : shown(stats))
        (stats[:state] == "down") ? FAILED : OK
      end

      def tell(text)
        @out.puts(text)
        OK
      end

      def stopped(text)
        await_end
        tell("stop: #{text}")
        (text == Server::Control::ENDS[true]) ? OK : FAILED
      end

      # Sockets and files are free when the process has ended, not before.
      def await_end
        deadline = now + LIMIT
        while @pid && runs?(@pid)
          if now > deadline
            raise UnreachableError, "the server's requests have ended, but its process #{@pid} has not. " \
              "kill -9 #{@pid} ends it"
          end
          sleep LOOK
        end
      end

      # A zombie has ended: its parent has only not reaped it yet.
      def runs?(pid)
        File.read("/proc/#{pid}/stat")[/\) (\S)/, 1] != "Z"
      rescue Errno::ENOENT, Errno::ESRCH
        false
      end

      def ask(target)
        socket = UNIXSocket.new(path)
        socket.timeout = (WAITING.include?(@command) && !@at_once) ? nil : LIMIT
        @pid = process_of(socket)
        socket << "#{target} HTTP/1.0\r\nContent-Length: 0\r\n\r\n"
        head, body = socket.read.split("\r\n\r\n", 2)
        raise Gone, "the server at #{path} has ended without a response" unless head
        [head[/\AHTTP\S+ (\d+)/, 1].to_i, body.to_s]
      rescue SystemCallError, IOError => error
        raise @pid ? Gone : UnreachableError, "no server answers at #{path} (#{error.message}). " \
          "Check that it is running, and that you are its user", cause: nil
      ensure
        socket&.close
      end

      def target
        return "GET /stats" if @command == "status"
        wishes = [*("wait=no" if @at_once), *("now=yes" if @now)]
        "POST /#{@command}#{"?#{wishes.join("&")}" if wishes.any?}"
      end

      # @return [Integer, nil] the process that listens there; nil if the system does not say, or if it is in another
      #   namespace
      def process_of(socket)
        return unless Socket.const_defined?(:SO_PEERCRED)
        socket.getsockopt(:SOCKET, :PEERCRED).data.unpack1("i").then { |pid| pid if pid > 0 }
      end

      def shown(stats)
        head = "#{stats[:state]}, pid #{stats[:pid]}, version #{stats[:version]}, at #{stats[:addresses].join(" and ")}"
        rows = stats[:workers].map do |worker|
          numbers = worker[:stats].slice(:in_flight, :ready, :queued, :connections, :answered).transform_values(&:to_i)
          numbers.default = 0
          format("  %-9s %-8s %-9s %8.0f s %6d requests %6d waiting %6d connections %10d answered",
            "worker #{worker[:number]}", worker[:pid], worker[:state], worker[:age], numbers[:in_flight],
            numbers[:ready] + numbers[:queued], numbers[:connections], numbers[:answered])
        end
        rows += stats.fetch(:sidecars, []).map { |sidecar| shown_sidecar(sidecar) }
        result, message, at = stats.fetch(:load, {}).values_at(:result, :message, :at)
        reason = message.lines(chomp: true).first(2).join(": ") if result == "failed"
        failure = "the last load failed (#{at}): #{reason}" if reason
        [head, *failure, *rows].join("\n")
      end

      def shown_sidecar(sidecar)
        command, pid, state, restarts, failure, at = sidecar.values_at(:command, :pid, :state, :restarts, :failure, :at)
        last = ", #{restarts} restarts; the last time (#{at}) it #{failure}" if failure
        format("  %-9s %-8s %-9s %s%s", "sidecar", pid, state, command, last)
      end
    end
  end
end
