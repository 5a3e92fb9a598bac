# frozen_string_literal: true

require "json"
require "optparse"
require "socket"
require_relative "../server"
require_relative "files"

module NeverBlock
  class CLI
    # neverblock stop, restart, reload, reopen and status: asks the server whose control socket the configuration names. stop waits
    # until its process has ended, restart and reload until the new app serves, or is known not to.
    #
    #   ControlCommand.new("status", []).call   # => 0
    # @api private
    class ControlCommand
      # Seconds that an answer may take; that to stop takes as long as the last request, that to reload as long as the app.
      LIMIT = 10
      # Those that wait for what they have begun.
      WAITING = %w[stop restart reload].freeze
      # What is answered by nothing but the end of the connection.
      Gone = Class.new(UnreachableError)
      private_constant :Gone
      # How often a process is looked at that is about to end, in seconds.
      LOOK = 0.02

      COMMANDS = {
        "stop" => "end the server when running requests have ended",
        "restart" => "replace the server and its workers, without losing a request",
        "reload" => "load the app anew and replace the workers one by one",
        "reopen" => "open the log files again, after they were renamed",
        "status" => "tell what the server and its workers are doing"
      }.freeze

      # What there is to be known beforehand.
      NOTES = {
        "restart" => "With workers 0 the one process finishes its requests and starts anew: an app that can't be loaded ends it.",
        "reload" => "With workers 0 the one process finishes its requests and starts anew: an app that can't be loaded ends it.",
        "stop" => "A server that is being stopped already is only waited for."
      }.freeze

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
        when 202 then tell("#{@command}: #{body.strip}; the error log tells how it ends")
        when 200 then done(body)
        when 500 then raise UnreachableError, "#{@command}: #{body.strip}"
        else raise UnreachableError, "#{path} answered #{status}: #{body.strip}"
        end
      end

      private

      def parse
        parser = OptionParser.new("Usage: neverblock #{@command} [options]") do |options|
          @files.options(options)
          options.on("--control PATH", "its control socket, where no configuration names it") { |name| @path = name }
          options.on("--json", "the numbers as JSON") { @json = true } if @command == "status"
          options.on("--no-wait", "return at once; the error log tells how it ends") { @at_once = true } if WAITING.include?(@command)
          options.on("--now", "cancel what still runs") { @now = true } if @command == "stop"
          options.on("-h", "--help", "this text") do
            @out.puts(options, *("\n#{NOTES[@command]}" if NOTES[@command]))
            @answered = true
          end
        end
        rest = parser.parse(@arguments)
        raise ConfigurationError, "#{rest.join(" ")}: #{@command} takes options alone. neverblock #{@command} --help lists them" if rest.any?
      rescue OptionParser::ParseError => error
        raise ConfigurationError, "#{error.message}. neverblock #{@command} --help lists the options", cause: nil
      end

      def path
        @path ||= configuration[:control] ||
          raise(ConfigurationError, "no control socket is named. Write control \"tmp/neverblock.sock\" into #{Server::Configuration::FILE}, " \
            "or tell where it is: neverblock #{@command} --control PATH")
      end

      def configuration
        Server::Configuration.new.tap { |configuration| @files.load(configuration) }
      end

      def done(body)
        case @command
        when "status" then status(body)
        when "stop" then stopped(body.strip)
        else tell("#{@command}: #{body.strip}")
        end
      end

      # Another program may take the server's place: it tells what has become of that.
      # @return [Array(Integer, String)] an answer
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
            nil # it is yet to listen
          end
          sleep LOOK
        end
        raise UnreachableError, "#{@command}: the server has ended. Its error log, or its standard error, tells why"
      end

      # @return [Integer] 1 where none serves
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

      # It has given its sockets and files back when it has ended, and not before.
      def await_end
        deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + LIMIT
        while @pid && runs?(@pid)
          raise UnreachableError, "the server's requests have ended, but its process #{@pid} has not. kill -9 #{@pid} ends it" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
          sleep LOOK
        end
      end

      # One that nobody has waited for yet has ended.
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
        raise Gone, "the server at #{path} has ended without an answer" unless head
        [head[/\AHTTP\S+ (\d+)/, 1].to_i, body.to_s]
      rescue SystemCallError, IOError => error
        raise @pid ? Gone : UnreachableError, "no server answers at #{path} (#{error.message}). Is it running, and are you its user?", cause: nil
      ensure
        socket&.close
      end

      def target
        return "GET /stats" if @command == "status"
        wishes = [*("wait=no" if @at_once), *("now=yes" if @now)]
        "POST /#{@command}#{"?#{wishes.join("&")}" if wishes.any?}"
      end

      # @return [Integer, nil] who listens there, where the system tells, and in a namespace that we see
      def process_of(socket)
        return unless Socket.const_defined?(:SO_PEERCRED)
        socket.getsockopt(:SOCKET, :PEERCRED).data.unpack1("i").then { |pid| pid if pid > 0 }
      end

      def shown(stats)
        head = "#{stats[:state]}, pid #{stats[:pid]}, version #{stats[:version]}, at #{stats[:addresses].join(" and ")}"
        rows = stats[:workers].map do |worker|
          numbers = worker[:stats]
          format("  %-9s %-8s %-9s %8.0f s %6d requests %6d waiting %6d connections %10d answered", "worker #{worker[:number]}", worker[:pid],
            worker[:state], worker[:age], numbers[:in_flight].to_i, numbers.values_at(:ready, :queued).sum(&:to_i), *numbers.values_at(:connections, :answered).map(&:to_i))
        end
        result, message, at = stats.fetch(:load, {}).values_at(:result, :message, :at)
        [head, *("the last load failed (#{at}): #{message.lines(chomp: true).first(2).join(": ")}" if result == "failed"), *rows].join("\n")
      end
    end
  end
end
