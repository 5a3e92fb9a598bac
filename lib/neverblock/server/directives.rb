# frozen_string_literal: true

require_relative "address"
require_relative "directive"
require_relative "trusted_networks"

module NeverBlock
  class Server
    # All directives, each with its default, an example and its documentation. This table defines the methods of
    # config/neverblock.rb, the keywords of Server.new, rackup's options and docs/configuration.md.
    #
    #   Directives::ALL[:max_in_flight].example   # => "max_in_flight 200"
    # @api private
    module Directives
      # @return [Hash{String=>Hash{Symbol=>Directive}}] directives by topic
      TOPICS = {}

      def self.topic(title)
        @words = TOPICS[title] = {}
      end
      private_class_method :topic

      def self.directive(name, says:, **definition)
        @words[name] = Directive.new(name, says, **definition)
      end
      private_class_method :directive

      topic "Where it listens"

      directive :bind, value: [ValueType.address, [].freeze], many: true,
        example: 'bind "tcp://127.0.0.1:3000"', says: <<~TEXT
          An address to listen on; may be repeated. `tcp://HOST:PORT` (port 0: any free port; a name stands for all its
          addresses; `tcp://[::]:3000` accepts IPv4 too) or `unix:///PATH`, optionally with the socket file's
          permissions: `unix:///run/app.sock?mode=0660&owner=app&group=www-data`. With `?proxy=required` after either,
          each connection must begin with a PROXY header, as a balancer that forwards bytes sends it; a connection
          without it is closed. Without any `bind`, `neverblock serve` listens on `tcp://0.0.0.0:$PORT` if the
          environment has a PORT, else on `tcp://127.0.0.1:3000`. Sockets are opened only at the first start. A restart
          passes them on, and logs each configured address that has no socket.
        TEXT

      directive :backlog, value: [ValueType.count(least: 1), 1_024], example: "backlog 4_096", says: <<~TEXT
        Connections that the kernel queues until they are accepted. Its own limit (`net.core.somaxconn`) holds too.
      TEXT

      topic "How much at a time"

      directive :max_in_flight, value: [ValueType.count(least: 1), 1_000], example: "max_in_flight 200", says: <<~TEXT
        Requests that run at the same time; more wait in the queue. A request counts from its start to the end of its
        response. A hijacked one, or one whose streaming response has begun, counts in `max_streams` instead.
        How large should it be? See [Sizing](sizing.md#requests-at-a-time).
      TEXT

      directive :queue, limit: [ValueType.count, 5_000], max_wait: [ValueType.seconds, 2.0],
        example: "queue limit: 500, max_wait: 0.5", says: <<~TEXT
          Requests that wait for a place among `max_in_flight`: how many, and for how many seconds. Beyond either limit
          the response is 503 with Retry-After. A request that has a place and waits for the processor is not in the
          queue. A request whose client has left is dropped. `env["neverblock.queue_time"]` has the seconds of both
          waits.
        TEXT

      directive :max_queue_time, value: [ValueType.seconds.optional, nil], example: "max_queue_time 10", says: <<~TEXT
        Seconds that a request may wait for its start, counted from its last byte: for a place among `max_in_flight`,
        and for the processor. Then 503 with Retry-After. nil: a request that has a place is never refused.
      TEXT

      directive :max_connections, value: [ValueType.count(least: 1), 20_000],
        example: "max_connections 2_000", says: <<~TEXT
          Connections that are open at the same time: idle ones too, and hijacked ones (websockets) until the app closes
          them. At the limit each new one closes the one that has been idle for longest. If none is idle, new ones wait
          in the kernel's backlog. Each connection takes a file descriptor; `neverblock serve` raises its soft limit
          (`ulimit -n`) as needed, up to the hard limit.
        TEXT

      directive :max_connections_per_address, value: [ValueType.count(least: 1).optional, nil],
        example: "max_connections_per_address 100", says: <<~TEXT
          Connections that one address (of IPv6 one network of 64 bits) may have open. One more is closed at once. Each
          worker counts its own: with `workers 4` an address may have up to four times as many. nil: any number. Many
          people may share an address, and behind a proxy they always do: connections of `trusted_proxies` and unix
          sockets are not counted, so let the proxy limit them. Where a PROXY header is required, the address in it
          counts.
        TEXT

      directive :max_streams, value: [ValueType.count(least: 1), 10_000], example: "max_streams 500", says: <<~TEXT
        Requests with a streaming response, such as server-sent events, or a hijacked connection, and responses that
        their clients read slowly. They take no place of `max_in_flight`. A hijacked connection whose request is over,
        such as Action Cable's, counts in `max_connections` alone.
      TEXT

      directive :max_requests_per_connection, value: [ValueType.count(least: 1).optional, nil],
        example: "max_requests_per_connection 10_000", says: <<~TEXT
          After so many requests a connection is closed, with `Connection: close` in the last response. nil: never.
          Useful behind a balancer that distributes load only when connections are opened.
        TEXT

      topic "How long"

      directive :head_timeout, value: [ValueType.seconds, 15], example: "head_timeout 5", says: <<~TEXT
        Seconds in which the head of a request must arrive, counted from its first byte, on a new connection from its
        opening. Then 408.
      TEXT

      directive :body_timeout, value: [ValueType.seconds, 30], example: "body_timeout 10", says: <<~TEXT
        Seconds for which a request's body may pause. Then 408.
      TEXT

      directive :min_body_rate, value: [ValueType.count, 500], after: [ValueType.seconds(zero: true), 10],
        example: "min_body_rate 1_000, after: 5", says: <<~TEXT
          Bytes per second that a request's body must reach on average, checked after its first `after:` seconds. It
          stops clients that send a byte now and then. 0: no minimum. Below it: 408.
        TEXT

      directive :idle_timeout, value: [ValueType.seconds, 75], example: "idle_timeout 20", says: <<~TEXT
        Seconds for which a connection may stay open between two requests. Behind a proxy it should be longer than the
        proxy's own limit, so that the proxy does not send a request into a connection that is being closed.
      TEXT

      directive :write_timeout, value: [ValueType.seconds, 30], example: "write_timeout 10", says: <<~TEXT
        Seconds for which a client may read nothing of its response. Then the connection and the response's body are
        closed.
      TEXT

      directive :min_answer_rate, value: [ValueType.count, 500], after: [ValueType.seconds(zero: true), 30],
        example: "min_answer_rate 2_000, after: 10", says: <<~TEXT
          Bytes per second of its response that a client must read on average, checked once a second, after `after:`
          seconds. It stops clients that read a byte now and then. Only the time counts in which the server has
          something to send, not the pauses of a stream. 0: no minimum. Below it the connection and the response's body
          are closed.
        TEXT

      directive :request_timeout, value: [ValueType.seconds.optional, nil], example: "request_timeout 30", says: <<~TEXT
        Seconds that a request may run. Then it is cancelled at its present or next wait; the response is 503 if
        nothing was sent. nil: no limit.
      TEXT

      directive :slow_request, value: [ValueType.seconds.optional, 60], example: "slow_request 5", says: <<~TEXT
        Seconds after which the error log says what a running request waits for. nil: never.
      TEXT

      directive :linger_timeout, value: [ValueType.seconds(zero: true), 2], example: "linger_timeout 1", says: <<~TEXT
        Seconds for which the server goes on reading from a connection that it closes, so that a client that is still
        sending gets its response (a 413, for instance) instead of a reset.
      TEXT

      directive :shutdown_timeout, value: [ValueType.seconds(zero: true), 30],
        example: "shutdown_timeout 10", says: <<~TEXT
          Seconds for running requests to finish after TERM or INT. Then they are cancelled. A second signal cancels
          them at once.
        TEXT

      directive :drain_delay, value: [ValueType.seconds(zero: true).optional, nil],
        example: "drain_delay 10", says: <<~TEXT
          Seconds after TERM in which `/readyz` says no and connections are still accepted, so that a balancer can stop
          sending clients before any is refused. nil: 0 in development and tests, else 5.
        TEXT

      topic "How large"

      directive :max_head_size, value: [ValueType.bytes(least: 1_024), 65_536],
        example: 'max_head_size "16 KiB"', says: <<~TEXT
          Bytes in the head of a request. Beyond: 414 while the request line is unfinished, else 431.
        TEXT

      directive :max_uri_length, value: [ValueType.bytes(least: 64), 12_288],
        example: 'max_uri_length "4 KiB"', says: <<~TEXT
          Bytes in the target of a request: path and query. Beyond: 414.
        TEXT

      directive :max_header_count, value: [ValueType.count(least: 1, most: ResponseParser::MAX_FIELDS), 100],
        example: "max_header_count 50", says: <<~TEXT
          Header fields in a request. Beyond: 431.
        TEXT

      directive :max_body_size, value: [ValueType.bytes, 1 << 30], example: 'max_body_size "10 MiB"', says: <<~TEXT
        Bytes in the body of a request. Beyond: 413.
      TEXT

      directive :body_memory, value: [ValueType.bytes, 65_536], example: 'body_memory "256 KiB"', says: <<~TEXT
        Bytes of a request's body that are kept in memory; a longer one goes to a temporary file.
      TEXT

      directive :body_quota, value: [ValueType.bytes, 4 << 30], example: 'body_quota "1 GiB"', says: <<~TEXT
        Bytes that all request bodies together may take, in memory and files. Beyond: 503 with Retry-After. It can't be
        less than `max_body_size`.
      TEXT

      topic "Several processes"

      workers = ValueType.new("a whole number, 0 or more and at most 1_000, or :auto",
        text: ->(text) { (text == "auto") ? :auto : Integer(text, 10, exception: false) }) do |value|
        (value == :auto || (Integer === value && value.between?(0, 1_000))) ? value : ValueType::REFUSED
      end

      directive :workers, value: [workers, 0], example: "workers :auto", says: <<~TEXT
        Processes that serve. 0: a single process. From 1 on, this process is the supervisor: it never loads the app,
        starts a template process that does, and keeps so many forks of that serving. :auto: as many as there are
        processors; a container may have fewer than the machine. Without `workers`, WEB_CONCURRENCY in the environment
        counts; 1 there means a single process.
      TEXT

      directive :directory, value: [ValueType.text("a path").optional, nil],
        example: 'directory "/srv/shop/current"', says: <<~TEXT
          The directory from which a reload (USR1) loads the app. A link is resolved each time, so that it may lead to
          the newest release. Without it, the directory in which the server was started.
        TEXT

      directive :boot_timeout, value: [ValueType.seconds, 60], example: "boot_timeout 120", says: <<~TEXT
        Seconds in which a template must load the app, and a worker must become ready. After that it is killed. So is
        the process that reads the configuration before a single process starts anew.
      TEXT

      directive :worker_timeout, value: [ValueType.seconds(zero: false).optional, 60],
        example: "worker_timeout 20", says: <<~TEXT
          Seconds for which a worker may be silent. A silent worker's loop is blocked, with all its requests: it writes
          the backtraces of all its fibers to the error log, and is replaced, unless a debugger is attached. nil: no
          limit.
        TEXT

      directive :recycle, memory: [ValueType.bytes(least: 1 << 20).optional, nil],
        requests: [ValueType.count(least: 1).optional, nil],
        example: 'recycle memory: "500 MiB", requests: 100_000', says: <<~TEXT
          Replaces a worker that takes more than so many bytes (proportional set size), or has answered so many
          requests. Both limits vary by a tenth, so that workers are not replaced at the same time. The old worker
          finishes its requests. nil: never.
        TEXT

      directive :sidecar, value: [ValueType.text("a command"), [].freeze], many: true,
        example: 'sidecar "bin/jobs"', says: <<~TEXT
          A program that runs beside the workers, such as a job runner. It is started again when it ends, gets a TERM
          when the server ends, and is restarted by a reload.
        TEXT

      directive :before_fork, value: [ValueType::BLOCK, [].freeze], many: true,
        example: "before_fork { Searcher.load_index }", says: <<~TEXT
          A block that the template runs once, after it has loaded the app. All workers share its effect. Close
          connections here that they must not share.
        TEXT

      directive :after_fork, value: [ValueType::BLOCK, [].freeze], many: true,
        example: "after_fork { |number| Statistics.start(number) }", says: <<~TEXT
          A block that each worker runs before it serves, with its number, from 0. Start threads and open connections
          here.
        TEXT

      directive :before_worker_exit, value: [ValueType::BLOCK, [].freeze], many: true,
        example: "before_worker_exit { Statistics.flush }", says: <<~TEXT
          A block that each worker runs after its last request, with its number.
        TEXT

      topic "How requests are run"

      directive :request_body, value: [ValueType.one_of(:buffer, :stream), :buffer],
        path: [ValueType.paths.optional, nil],
        example: 'request_body :stream, path: "/uploads"', says: <<~TEXT
          :buffer: a request starts when its body is complete, so that a slow upload takes no place of `max_in_flight`,
          and `rack.input` can be rewound. :stream: it starts after its head, and `rack.input` waits for the rest; with
          `path:`, only for paths with one of these prefixes.
        TEXT

      directive :cancel_on_disconnect, value: [ValueType.flag, false],
        example: "cancel_on_disconnect true", says: <<~TEXT
          Whether a request whose client has left is cancelled at its present or next wait, and its response's body
          closed. Leave it off if requests that have begun to change something must finish.
        TEXT

      directive :underscore_headers, value: [ValueType.one_of(:drop, :pass), :drop],
        example: "underscore_headers :pass", says: <<~TEXT
          What to do with header fields that have an underscore in their name. In the env X_Forwarded_For looks like
          X-Forwarded-For, so a client could forge a field that a proxy sets.
        TEXT

      says = 'an address or a network, as "127.0.0.1", "10.0.0.0/8" or "fd00::/8", or "unix"'
      networks = ValueType.new(says) do |value|
        TrustedNetworks.read(value) || ValueType::REFUSED
      end

      directive :trusted_proxies, value: [networks, [].freeze], many: true,
        field: [ValueType.one_of(:x_forwarded, :forwarded), :x_forwarded],
        example: 'trusted_proxies "10.0.0.0/8", "::1"', says: <<~TEXT
          Proxies that are trusted: for their requests REMOTE_ADDR, the access log and `rack.url_scheme` follow
          X-Forwarded-For and X-Forwarded-Proto, with `field: :forwarded` the field Forwarded (RFC 7239); the other kind
          is dropped. From all other addresses both kinds are dropped, so that clients can't forge them. "unix" stands
          for connections through a unix socket. None: the fields reach the app unchanged, and the app has to judge
          them.
        TEXT

      directive :early_hints, value: [ValueType.flag, false], example: "early_hints true", says: <<~TEXT
        Whether `env["rack.early_hints"]` exists, with which an app sends a 103 before its response. Rails then does
        so for each page. Some clients take the 103 for the response, so turn it on only if you know your clients,
        such as a proxy. `env["neverblock.interim"]` exists too, for all interim responses from 102 to 199:
        `call(102, {})`. A client of HTTP/1.0 gets none.
      TEXT

      directive :stack_depth, vm: [ValueType.bytes(least: 16_384).optional, 1 << 20],
        machine: [ValueType.bytes(least: 65_536).optional, 2 << 20],
        example: 'stack_depth vm: "2 MiB", machine: "4 MiB"', says: <<~TEXT
          The stacks of a request's fiber: that of Ruby's own frames, and that of C, which YJIT uses too. With the
          defaults a request can call as deep as in a thread, about 10,000 plain methods (8,500 with YJIT on Ruby 4.1);
          Ruby gives a fiber an eighth of that. Stacks cost address space, and memory only as deep as they have been
          used. Ruby reads the sizes when it boots, so `neverblock serve` executes itself once more with
          RUBY_FIBER_VM_STACK_SIZE and RUBY_FIBER_MACHINE_STACK_SIZE, unless they are set. nil: Ruby's own size. An
          embedded server, and rackup, have the sizes that their Ruby was started with.
        TEXT

      require_relative "directives/proxy"

      topic "Operation"

      directive :health, value: [ValueType.probes.optional, nil], example: 'health "tcp://0.0.0.0:9090"', says: <<~TEXT
        An address for probes, apart from the app's: `/livez`, `/readyz`, `/stats` with all numbers as JSON, and
        `/metrics` for Prometheus. With workers the supervisor answers there, without them a thread of its own, so
        that probes see a blocked loop.
      TEXT

      directive :control, value: [ValueType.socket_path.optional, nil],
        example: 'control "tmp/neverblock.sock"', says: <<~TEXT
          A unix socket to which `neverblock stop`, `restart`, `reload`, `reopen` and `status` send their commands. Only
          the server's user can use it.
        TEXT

      directive :pid_file, value: [ValueType.text("a path").optional, nil],
        example: 'pid_file "tmp/pids/server.pid"', says: <<~TEXT
          A file with the number of this process while it runs; with workers, the supervisor's. The server holds a lock
          on it (`flock`), which ends with the process: a file that was left behind never prevents a new start, even if
          its number belongs to another process by then.
        TEXT

      directive :restart_file, value: [ValueType.text("a path").optional, "tmp/restart.txt"],
        example: 'restart_file "/srv/shop/restart.txt"', says: <<~TEXT
          A file, in the app's directory unless its path is absolute. When it is touched, the app is reloaded as by
          USR1. `bin/rails restart` touches the default one. `neverblock serve` looks at it once a second. nil: none.
        TEXT

      topic "Logs and names"

      directive :access_log, value: [ValueType.one_of(false, :common, :json), false], to: [ValueType.sink, $stdout],
        example: 'access_log :json, to: "log/access.log"', says: <<~TEXT
          A line for each request with a valid head, refused ones included: :common for the Common Log Format, :json for
          an object with the seconds it took. Written to a path or an IO, once a second. If the IO is stalled, such as a
          pipe without a reader, lines are dropped and counted, and no request waits.
        TEXT

      directive :error_log, value: [ValueType.sink, $stderr], example: 'error_log "log/error.log"', says: <<~TEXT
        A line for each failing request, with its backtrace, and messages of the server itself. Control characters are
        escaped, so that no client can forge a line. A path or an IO.
      TEXT

      directive :environment, value: [ValueType.text("a name").optional, nil],
        example: 'environment "production"', says: <<~TEXT
          Set as RACK_ENV before the app is loaded. Without it the value of APP_ENV, RACK_ENV or RAILS_ENV, else
          "development".
        TEXT

      directive :tag, value: [ValueType.text("a name").optional, nil], example: 'tag "shop"', says: <<~TEXT
        A name for this server in the title of its process (`ps`, `top`). Without it, that of the working directory.
      TEXT

      TOPICS.each_value(&:freeze)
      TOPICS.freeze

      # @return [Hash{Symbol=>Directive}]
      ALL = TOPICS.values.inject(:merge).freeze

      # @return [Hash{Symbol=>Array(Directive, Directive::Setting)}] by a setting's flat name
      SETTINGS = ALL.each_value.flat_map { |directive|
        directive.settings.map { |one| [one.name, [directive, one]] }
      }.to_h.freeze

      # The names of other servers for our directives.
      ELSEWHERE = {
        threads: :max_in_flight, min_threads: :max_in_flight, max_threads: :max_in_flight, port: :bind, listen: :bind,
        host: :bind,
        first_data_timeout: :head_timeout, persistent_timeout: :idle_timeout, keepalive_timeout: :idle_timeout,
        force_shutdown_after: :shutdown_timeout, http_content_length_limit: :max_body_size, stdout_redirect: :error_log,
        max_fast_inline: :max_requests_per_connection, max_keep_alive: :max_requests_per_connection,
        rack_env: :environment
      }.freeze

      # @param name [Symbol] an unknown directive
      # @return [String, nil] our directive for another server's name, as a sentence with a blank before it
      def self.suggestion(name) = ELSEWHERE[name]&.then { |word| " Here the word is #{word}." }

      # @param name [Symbol] an unknown directive
      # @return [String, nil] the directive that may have been meant, as a sentence with a blank before it
      def self.near(name)
        if defined?(DidYouMean::SpellChecker)
          near = DidYouMean::SpellChecker.new(dictionary: ALL.keys).correct(name).first
        end
        near && " Did you mean #{near}?"
      end
    end
  end
end
