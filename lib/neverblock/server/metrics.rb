# frozen_string_literal: true

require_relative "metrics/cache"
require_relative "metrics/postgres"
require_relative "metrics/proxy"

module NeverBlock
  class Server
    # The figures of `/stats` in the text format of Prometheus, version 0.0.4. docs/operations.md lists the names, which
    # are stable.
    #
    #   Metrics.new(supervisor).text
    #   # HELP neverblock_requests_total Requests that have begun.
    #   # TYPE neverblock_requests_total counter
    #   neverblock_requests_total{worker="0",pid="812"} 1204
    #
    # A worker's labels are its number and its process id: during a replacement two workers have one number.
    # @api private
    class Metrics
      CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

      # Metrics by the keys of a server's stats.
      SERVER = {
        connections: ["connections", :gauge, "Connections that are open, with those that the app has taken over."],
        taken_over: ["connections_taken_over", :gauge, "Hijacked connections that the app has not closed."],
        in_flight: ["requests_in_flight", :gauge, "Requests that have a handler fiber. Streams are not among them."],
        ready: ["requests_ready", :gauge, "Requests that have a place and wait for the processor."],
        queued: ["requests_queued", :gauge, "Requests that wait for a place."],
        streams: ["streams", :gauge, "Requests that stream or were hijacked, while they run; they are not in flight."],
        fibers: ["request_fibers", :gauge, "Fibers that serve requests."],
        idle_fibers: ["request_fibers_idle", :gauge, "Request fibers that are idle."],
        body_bytes: ["request_body_bytes", :gauge, "Bytes of request bodies, in memory and files."],
        memory: ["worker_memory_bytes", :gauge, "Proportional set size of the process."],
        accepted: ["connections_accepted_total", :counter, "Connections that were accepted."],
        requests: ["requests_total", :counter, "Requests with a valid head, also those that were refused later."],
        answered: ["requests_answered_total", :counter, "Requests that were served without an error of the app."],
        failed: ["requests_failed_total", :counter,
          "Requests whose app raised an error; not those that were cancelled, or whose client had left."],
        dropped: ["requests_dropped_total", :counter, "Requests whose client left before it had the whole response."],
        hijacked: ["requests_hijacked_total", :counter, "Requests whose connection the app took over."],
        cut: ["requests_cut_total", :counter,
          "Requests that the server's end cut short, or their client's leaving (cancel_on_disconnect)."],
        timeouts: ["request_timeouts_total", :counter,
          "Requests that took too long: to arrive, to be served (request_timeout), or to be taken by their client."],
        evicted: ["connections_evicted_total", :counter,
          "Idle or lingering connections that were closed to make room for new ones."],
        refused_address: ["connections_refused_address_total", :counter,
          "Connections that were closed because their address was at its limit."],
        proxy_errors: ["proxy_errors_total", :counter,
          "Connections that did not begin with the PROXY header that their listener requires."],
        held_back: ["requests_held_back_total", :counter,
          "Requests that waited for a millisecond or more, since those that had begun kept the processor busy."],
        let_in: ["requests_let_in_total", :counter,
          "Requests that began although the processor was busy, since no other had ended for too long."],
        log_lines_lost: ["log_lines_lost_total", :counter, "Lines that a log could not take, or not soon enough."]
      }.freeze

      # Metrics by the keys of a loop's statistics.
      LOOP = {
        tasks: ["loop_tasks", :gauge, "Tasks that have not ended."],
        parked: ["loop_parked", :gauge, "Fibers that wait."],
        timers: ["loop_timers", :gauge, "Timers that are set."],
        interests: ["loop_interests", :gauge, "Waits for descriptors."],
        jobs: ["loop_jobs", :gauge, "Calls that native threads or io_uring have been given."],
        operations: ["loop_operations", :gauge, "Accepts, receives and sends that io_uring has been given."],
        switches: ["loop_switches_total", :counter, "Switches to another fiber."],
        turns: ["loop_turns_total", :counter, "Turns of the loop."],
        polls: ["loop_polls_total", :counter, "Looks at the kernel."],
        waits: ["loop_waits_total", :counter, "Looks at the kernel that may have slept."],
        registrations: ["loop_registrations_total", :counter, "Registrations of descriptors with the kernel."],
        starved: ["loop_starved_total", :counter, "Receives that found no free buffer (io_uring)."],
        fibers: ["loop_fibers_total", :gauge, "Fibers that have begun and not ended; a gauge, whatever its name."]
      }.freeze

      # Metrics by the keys of a thread pool's figures.
      POOL = {
        limit: ["pool_threads_limit", :gauge, "Threads that the pool has at most, but for endless calls."],
        threads: ["pool_threads", :gauge, "Threads that the pool has."],
        idle: ["pool_threads_idle", :gauge, "Threads of the pool that are idle."],
        queued: ["pool_queued", :gauge, "Calls that wait for a thread."]
      }.freeze

      # Metrics by the keys of Task.stats.
      TASKS = {
        unfinished: ["tasks", :gauge, "Tasks that have not ended, of all loops."],
        oldest: ["task_oldest_seconds", :gauge, "Age of the oldest task that has not ended."]
      }.freeze

      # By the keys of a connection pool's statistics.
      CONNECTION_POOL = {
        size: ["connection_pool_connections_limit", :gauge, "Connections that the pool may have."],
        idle: ["connection_pool_idle", :gauge, "Connections that are not in use."],
        held: ["connection_pool_held", :gauge, "Connections that fibers and threads hold."],
        held_oldest: ["connection_pool_held_oldest_seconds", :gauge,
          "For how long the oldest holder has had its connection."],
        waiting: ["connection_pool_waiting", :gauge, "Fibers and threads that wait for a connection."],
        circuit_open: ["connection_pool_circuit_open", :gauge, "1 while the circuit breaker refuses check-outs."],
        opened: ["connection_pool_opened_total", :counter, "Connections that were opened."],
        closed: ["connection_pool_closed_total", :counter, "Connections that were closed."],
        interrupted: ["connection_pool_interrupted_total", :counter,
          "Connections that were closed since their users may have been in the middle of a response."],
        waits: ["connection_pool_waits_total", :counter, "Waits for a connection that have ended."],
        wait_seconds: ["connection_pool_wait_seconds_total", :counter, "Seconds that they took, all together."],
        timeouts: ["connection_pool_wait_timeouts_total", :counter, "Waits for a connection that were in vain."],
        refused: ["connection_pool_waits_refused_total", :counter,
          "Check-outs that were refused, since too many waited."]
      }.freeze

      STATES = %i[starting serving leaving].freeze

      # @param subject [#live?, #ready?, #stats] the supervisor, or in a single process {Heartbeat}
      def initialize(subject)
        @subject = subject
        @families = {}
      end

      # @return [String]
      def text
        stats = @subject.stats
        add("info", :gauge, "The server's versions; always 1.", 1, **stats.slice(:version, :ruby, :engine))
        add("live", :gauge, "1 unless only a restart of the process can help.", @subject.live? ? 1 : 0)
        add("ready", :gauge, "1 while requests may be sent.", @subject.ready? ? 1 : 0)
        add("last_load_failed", :gauge, "1 if the last load failed, or could not replace all workers.",
          (stats.dig(:load, :result) == :failed) ? 1 : 0)
        STATES.each do |state|
          number = stats[:workers].count { |worker| worker[:state].to_sym == state }
          add("workers", :gauge, "Workers by state.", number, state:)
        end
        stats[:workers].each { |worker| add_worker(worker) }
        stats[:sidecars]&.each_with_index { |sidecar, number| add_sidecar(sidecar, number) }
        @families.map { |name, (type, help, samples)|
          "# HELP #{name} #{help}\n# TYPE #{name} #{type}\n#{samples.join}"
        }.join
      end

      private

      def add_worker(worker)
        labels = {worker: worker[:number], pid: worker[:pid]}
        stats = worker[:stats]
        add("worker_age_seconds", :gauge, "Seconds since the worker was started.", worker[:age], **labels)
        add_all(SERVER, stats, labels)
        stats[:refused]&.each do |reason, count|
          add("requests_refused_total", :counter, "Requests that were refused, by reason.", count, **labels, reason:)
        end
        stats.fetch(:runtime, {}).each { |source, figures| add_source(source, figures, labels) }
      end

      # Two may have the same command.
      def add_sidecar(sidecar, number)
        labels = {sidecar: sidecar[:command], number:}
        up = (sidecar[:state] == :running) ? 1 : 0
        add("sidecar_up", :gauge, "1 while the sidecar's process runs.", up, **labels)
        add("sidecar_restarts_total", :counter, "Times that the sidecar has ended unasked, or could not be started.",
          sidecar[:restarts], **labels)
      end

      def add_source(source, figures, labels)
        case source.to_sym
        when :loops then figures.each_with_index { |figure, index| add_all(LOOP, figure, {**labels, loop: index}) }
        when :pools then figures.each { |pool, figure| add_all(POOL, figure, {**labels, pool:}) }
        when :tasks then add_all(TASKS, figures, labels)
        when :connection_pools
          figures.each { |pool, figure| add_all(CONNECTION_POOL, figure, {**labels, pool:}) }
        when :postgres
          Postgres.pools?(figures) ? add_postgres(figures, labels) : add_registered(source, figures, labels)
        when :proxy then add_figures(PROXY, :upstream, source, figures, labels)
        when :caches then add_figures(CACHE, :cache, source, figures, labels)
        else add_registered(source, figures, labels)
        end
      end

      def add_postgres(pools, labels)
        pools.each { |pool, figures| Postgres.each(figures) { |*row, more| add(*row, **labels, pool:, **more) } }
      end

      def add_figures(kind, label, source, all, labels)
        return add_registered(source, all, labels) unless kind.known?(all)
        all.each { |name, figures| kind.each(figures) { |*row, more| add(*row, **labels, label => name, **more) } }
      end

      # Adds the numbers of a source that another part or the app has registered, each named by its path in the Hash.
      def add_registered(path, figures, labels)
        case figures
        when Hash then figures.each { |key, figure| add_registered("#{path}_#{key}", figure, labels) }
        when Array then figures.each_with_index { |figure, index| add_registered(path, figure, {**labels, index:}) }
        when Numeric
          name = path.to_s.gsub(/[^a-zA-Z0-9_]/, "_")
          add(name, :untyped, "Registered as a source of NeverBlock.stats.", figures, **labels)
        end
      end

      def add_all(table, figures, labels)
        table.each { |key, (name, type, help)| add_one(name, type, help, figures[key], labels) }
      end

      def add_one(name, type, help, value, labels)
        value = value ? 1 : 0 if value == true || value == false
        add(name, type, help, value, **labels) if value
      end

      def add(name, type, help, value, **labels)
        name = "neverblock_#{name}"
        inside = labels.map { |label, text| %(#{label}="#{escape(text)}") }.join(",")
        samples = (@families[name] ||= [type, help, []]).last
        samples << "#{name}#{"{#{inside}}" unless inside.empty?} #{value}\n"
      end

      def escape(text) = text.to_s.gsub(/[\\"\n]/, "\\" => "\\\\", "\"" => "\\\"", "\n" => "\\n")
    end
  end
end
