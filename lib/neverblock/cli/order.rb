# frozen_string_literal: true

require "json"
require "optparse"
require "socket"
require_relative "../server"
require_relative "files"

module NeverBlock
  class CLI
    # neverblock stop, restart, reload, reopen and status: asks the server whose control socket the configuration names. stop waits
    # until its process has ended.
    #
    #   Order.new("status", []).call   # => 0
    # @api private
    class Order
      # Seconds that an answer may take; that to stop takes as long as the last request.
      LIMIT = 10
      # How often a process is looked at that is about to end, in seconds.
      LOOK = 0.02

      COMMANDS = {
        "stop" => "end the server when running requests have ended",
        "restart" => "replace the server and its workers, without losing a request",
        "reload" => "load the app anew and replace the workers one by one",
        "reopen" => "open the log files again, after they were renamed",
        "status" => "tell what the server and its workers are doing"
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
        status, body = ask
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
          options.on("--no-wait", "return at once; the error log tells how it ends") { @at_once = true } if @command == "stop"
          options.on("-h", "--help", "this text") do
            @out.puts(options)
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
        when "status" then tell(shown(body))
        when "stop" then stopped(body.strip)
        else tell("#{@command}: #{body.strip}")
        end
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

      def ask
        socket = UNIXSocket.new(path)
        waits = @command == "stop" && !@at_once
        socket.timeout = waits ? nil : LIMIT
        @pid = process_of(socket)
        socket << "#{target} HTTP/1.0\r\nContent-Length: 0\r\n\r\n"
        head, body = socket.read.split("\r\n\r\n", 2)
        raise UnreachableError, "the server at #{path} has ended without an answer" unless head
        [head[/\AHTTP\S+ (\d+)/, 1].to_i, body.to_s]
      rescue SystemCallError, IOError => error
        raise UnreachableError, "no server answers at #{path} (#{error.message}). Is it running, and are you its user?", cause: nil
      ensure
        socket&.close
      end

      def target
        return "GET /stats" if @command == "status"
        "POST /#{@command}#{"?wait=no" if @at_once}"
      end

      # @return [Integer, nil] who listens there, where the system tells, and in a namespace that we see
      def process_of(socket)
        return unless Socket.const_defined?(:SO_PEERCRED)
        socket.getsockopt(:SOCKET, :PEERCRED).data.unpack1("i").then { |pid| pid if pid > 0 }
      end

      def shown(body)
        return body if @json
        stats = JSON.parse(body, symbolize_names: true)
        head = "#{stats[:state]}, pid #{stats[:pid]}, version #{stats[:version]}, at #{stats[:addresses].join(" and ")}"
        rows = stats[:workers].map do |worker|
          numbers = worker[:stats]
          format("  %-9s %-8s %-9s %8.0f s %6d requests %6d waiting %6d connections %10d answered", "worker #{worker[:number]}", worker[:pid],
            worker[:state], worker[:age], numbers[:in_flight].to_i, numbers.values_at(:ready, :queued).sum(&:to_i), *numbers.values_at(:connections, :answered).map(&:to_i))
        end
        [head, *rows].join("\n")
      end
    end
  end
end
