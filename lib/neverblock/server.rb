# frozen_string_literal: true

# The server in Ruby; the HTTP part is in C, docs/architecture.md has the way of a request:
#
#     server.rb               the public class
#     service.rb              serves an app once, and drains
#     runner.rb               a single process (workers 0); runner_table.rb: its states
#     cluster/                a supervisor and workers: cluster/supervisor.rb has the map
#     machine.rb              state machines that are written as tables
#     app_error.rb            raised where the app can't be loaded
#
#     configuration.rb        the settings; dsl.rb, script.rb: their file; error_collector.rb: its errors
#     directives.rb           all directives (directives/proxy.rb); directive.rb, value_type.rb: what one is
#     from_puma.rb            configurations for Puma; its parts are in from_puma/
#     places.rb               checks folders, addresses and programs
#     rack_handler.rb         rackup -s neverblock
#
#     address.rb              a bind URI; binder.rb: the sockets
#     trusted_networks.rb     trusted_proxies
#     systemd.rb              readiness, watchdog, sockets
#     pid_file.rb, restart_file.rb, processors.rb, crowd.rb, memory.rb
#
#     input.rb                rack.input while the body is being sent; empty_input.rb, readable.rb
#     stream.rb               the stream of a streaming body
#
#     events.rb               passes events of the C core to the logs
#     access_log.rb, error_log.rb, log_writer.rb, log_text.rb
#     endpoints.rb            the servers of health and control: health.rb, control.rb, loads.rb, commands.rb
#     heartbeat.rb            what they tell about a single process
#     metrics.rb              for Prometheus; metrics/postgres.rb, metrics/proxy.rb, runtime_stats.rb

require "stringio"
require_relative "runtime"
require_relative "server/configuration"
require_relative "server/events"
require_relative "server/service"
require_relative "server/runner"
require_relative "server/empty_input"
require_relative "server/stream"

module NeverBlock
  # A web server for Rack apps, each request in a fiber of its own.
  #
  #   require "neverblock/server"
  #
  #   server = NeverBlock::Server.new(app, bind: "tcp://127.0.0.1:0", max_in_flight: 100)
  #   server.start
  #   server.addresses      # => ["tcp://127.0.0.1:43211"]
  #   server.stop
  #
  # docs/configuration.md has all directives. `neverblock serve` is built on {#run}.
  class Server
    # @return [Configuration]
    attr_reader :configuration

    # @param app [#call] a Rack app
    # @param configuration [Configuration, nil]
    # @param directives [Hash{Symbol=>Object}] on top of it
    # @raise [ConfigurationError] naming the directive, the value and the remedy
    def initialize(app, configuration = nil, **directives)
      unless app.respond_to?(:call)
        raise ConfigurationError, "#{app.inspect} is not a Rack app: it does not respond to call"
      end
      @app = app
      @configuration = configuration ? configuration.dup : Configuration.new
      directives.each { |name, value| @configuration.set(name, value) }
      @configuration.check
      @service = nil
    end

    # Starts serving. Inside a loop the server belongs to the caller's scope, which then ends only after the server was
    # stopped. Outside of a loop it runs on a thread with a loop of its own.
    # @return [self] once it listens
    # @raise [BindError] if an address can't be opened
    # @raise [ClosedError] if it serves already
    def start
      raise ClosedError, "this server serves already, at #{addresses.join(", ")}: stop it first" if serving?
      Patches::Isolation.provide # here: it may have a thread of its own, and the app's state is this one's
      @events ||= Events.new(@configuration)
      service = Service.new(@app, @configuration, @events, **{binder: @binder, yields: @yields}.compact)
      service.open
      @service = service
      if Scheduler.current && Task.current
        NeverBlock.spawn(name: "server") { service.serve }
      else
        on_a_thread(service)
      end
      service.wait_until_listening
      self
    end

    # Stops accepting, lets running requests finish, and closes every connection. Thread-safe.
    # @param timeout [Numeric] seconds; requests that still run then are cancelled
    # @return [Boolean] whether no request was cancelled
    def stop(timeout: @configuration[:shutdown_timeout])
      Options.seconds("timeout", timeout)
      return true unless @service
      @service.stop(timeout || Float::INFINITY)
      @service.wait
    end

    # Serves until TERM or INT, which stop it as {#stop} does. A second signal cancels running requests, a third one
    # ends the process. For programs that do nothing else.
    # @return [Boolean] whether no request was cancelled
    # @raise [BindError]
    def run = Runner.new(@configuration).call { self }

    # @api private
    # @param binder [Binder] whose sockets are open already
    attr_writer :binder

    # @api private
    # @param flag [Boolean] whether a new connection may evict any other one: for probes, which no client may delay
    attr_writer :yields

    # @return [Boolean] whether it was started and has not ended
    def serving? = !@service.nil? && @service.state != :ended

    # @return [Array<String>] URIs on which it listens, with the actual ports; empty before the first start
    def addresses = @service&.addresses || []

    # @return [Hash{Symbol=>Object}] :state (:new, :starting, :serving, :stopping, :ended), :addresses, :log_lines_lost,
    #   and the core's counters: docs/server.md lists them
    def stats = @service&.stats || {state: :new, addresses: [], log_lines_lost: 0}

    # Opens the log files again, after they were renamed. The server goes on with the old file if the new one can't be
    # opened.
    # @return [Array<String>] a sentence for each file that could not be opened
    def reopen_logs = @events&.reopen || []

    # @return [String]
    def inspect = "#<#{[self.class, stats[:state], *addresses].join(" ")}>"

    # @api private
    # @return [Service, nil]
    attr_reader :service

    # @api private
    # @return [Events, nil]
    attr_reader :events

    private

    def on_a_thread(service)
      Thread.new do
        Thread.current.name = "neverblock server"
        Thread.current.report_on_exception = false # start, or the error log, tells it
        service.serve
      end
    end
  end
end

NeverBlock.send(:define_server)
