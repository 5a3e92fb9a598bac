# frozen_string_literal: true

require_relative "address"
require_relative "directive"
require_relative "trusted_networks"

module NeverBlock
  class Server
    # Every word of config/neverblock.rb, each with its default, an example and what it is for. From here come the
    # words themselves, the keywords of Server.new, rackup's options and docs/configuration.md.
    #
    #   Directives::ALL[:max_in_flight].example   # => "max_in_flight 200"
    # @api private
    module Directives
      # @return [Hash{String=>Hash{Symbol=>Directive}}] the words by topic
      TOPICS = {}

      def self.topic(title)
        @words = TOPICS[title] = {}
      end
      private_class_method :topic

      def self.directive(name, says, **definition)
        @words[name] = Directive.new(name, says, **definition)
      end
      private_class_method :directive

      address = ValueType.new('an address, as "tcp://127.0.0.1:3000", "tcp://[::1]:3000" or "unix:///run/app.sock?mode=0660"') do |value|
        case value
        when Address then value
        when String then Address.parse(value)
        else ValueType::REFUSED
        end
      rescue Address::Malformed => error
        raise ValueType::Invalid, error.message
      end

      topic "Where it listens"

      directive :bind, <<~TEXT, value: [address, [].freeze], many: true, example: 'bind "tcp://127.0.0.1:3000"'
        An address to listen on; several, where it is given several times. `tcp://HOST:PORT` (port 0: any that is free;
        a name stands for all its addresses; `tcp://[::]:3000` takes IPv4 too) or `unix:///PATH`, with the socket file's
        permissions if you like: `unix:///run/app.sock?mode=0660&owner=app&group=www-data`. With `?proxy=required`
        behind either, each connection must begin with a PROXY header, as a balancer that forwards bytes sends it; whoever
        comes without is turned away. Without any, `neverblock serve` listens on `tcp://0.0.0.0:$PORT` where the
        environment has a PORT, else on `tcp://127.0.0.1:3000`. Sockets are opened at a start alone: a restart hands them on,
        and tells which address is not served.
      TEXT

      directive :backlog, <<~TEXT, value: [ValueType.count(least: 1), 1_024], example: "backlog 4_096"
        Connections that the kernel keeps for us until we accept them. It cuts this down to its own limit
        (`net.core.somaxconn`).
      TEXT

      topic "How much at a time"

      directive :max_in_flight, <<~TEXT, value: [ValueType.count(least: 1), 1_000], example: "max_in_flight 200"
        Requests that run at once; more wait in the queue. A request counts from its start to the end of its answer; one
        that is hijacked, or whose streaming body has sent its head, counts in `max_streams` instead. Make the pools that
        requests draw from, above all the database's, about as large, or this as small as they are.
      TEXT

      directive :queue, <<~TEXT, limit: [ValueType.count, 5_000], max_wait: [ValueType.seconds, 2.0], example: "queue limit: 500, max_wait: 0.5"
        Requests that wait for a place among `max_in_flight`: how many, and for how many seconds. Beyond either the
        answer is 503 with Retry-After. A request that has a place and waits for the processor, while others compute, is
        not in it. One whose client has left is dropped. The app finds the seconds that a request waited for both in
        `env["neverblock.queue_time"]`.
      TEXT

      directive :max_queue_time, <<~TEXT, value: [ValueType.seconds.optional, nil], example: "max_queue_time 10"
        Seconds that a request may wait for its start, from its last byte: for a place among `max_in_flight`, and for the
        processor. Then 503 with Retry-After. nil: a request that has a place is never refused.
      TEXT

      directive :max_connections, <<~TEXT, value: [ValueType.count(least: 1), 20_000], example: "max_connections 2_000"
        Connections that are open at once, idle ones included. Beyond it, the one that has asked nothing for longest is
        closed for each new one. Where none is idle, nothing is accepted until one is: new ones wait in the kernel's backlog. Each takes a file descriptor; `neverblock serve` raises its soft limit
        (`ulimit -n`) to what this needs, up to the hard one.
      TEXT

      directive :max_connections_per_address, <<~TEXT, value: [ValueType.count(least: 1).optional, nil], example: "max_connections_per_address 100"
        Connections that one address may have open at once, of IPv6 one network of 64 bits. One more is closed at once. Each
        worker counts its own: with `workers 4` an address may have up to four times as many. nil: any number. Many people may share an address, and proxies always do: those of `trusted_proxies` and unix sockets
        are not counted, so behind them let the proxy limit it. Where a PROXY header is required, the address in it counts.
      TEXT

      directive :max_streams, <<~TEXT, value: [ValueType.count(least: 1), 10_000], example: "max_streams 500"
        Hijacked connections and streaming answers, such as server-sent events, that are open at once, and answers that
        their clients take slowly. They take no place of `max_in_flight`.
      TEXT

      directive :max_requests_per_connection, <<~TEXT, value: [ValueType.count(least: 1).optional, nil], example: "max_requests_per_connection 10_000"
        After so many requests a connection is closed, politely. nil: never. Useful behind a balancer that spreads load
        only when connections are opened.
      TEXT

      topic "How long"

      directive :head_timeout, <<~TEXT, value: [ValueType.seconds, 15], example: "head_timeout 5"
        Seconds in which the head of a request must have come, from its first byte (on a new connection from its
        opening). Then 408.
      TEXT

      directive :body_timeout, <<~TEXT, value: [ValueType.seconds, 30], example: "body_timeout 10"
        Seconds for which a request's body may pause. Then 408.
      TEXT

      directive :min_body_rate, <<~TEXT, value: [ValueType.count, 500], after: [ValueType.seconds(zero: true), 10], example: "min_body_rate 1_000, after: 5"
        Bytes a second that a request's body must bring on average, looked at after its first so many seconds; against
        clients that send a byte now and then. 0: any. Then 408.
      TEXT

      directive :idle_timeout, <<~TEXT, value: [ValueType.seconds, 75], example: "idle_timeout 20"
        Seconds for which a connection may stay open between two requests. Behind a proxy it should be longer than the
        proxy's own, which otherwise sends a request into a connection that is being closed.
      TEXT

      directive :write_timeout, <<~TEXT, value: [ValueType.seconds, 30], example: "write_timeout 10"
        Seconds for which a client may take nothing of its answer. Then the connection is closed, and the answer's body
        with it.
      TEXT

      directive :min_answer_rate, <<~TEXT, value: [ValueType.count, 500], after: [ValueType.seconds(zero: true), 30], example: "min_answer_rate 2_000, after: 10"
        Bytes a second of its answer that a client must take on average, looked at once a second, after so many seconds; against
        clients that take a byte now and then. Only the time counts in which there is more to send than the client has
        taken, not that in which a stream has nothing to say. 0: any. Then the connection is closed, and the answer's body
        with it.
      TEXT

      directive :request_timeout, <<~TEXT, value: [ValueType.seconds.optional, nil], example: "request_timeout 30"
        Seconds that a request may run. Then it is cancelled at its present or next wait, and answered with 503 if nothing
        was sent. nil: as long as it likes.
      TEXT

      directive :slow_request, <<~TEXT, value: [ValueType.seconds.optional, 60], example: "slow_request 5"
        Seconds after which the error log tells what a running request waits for. nil: never.
      TEXT

      directive :linger_timeout, <<~TEXT, value: [ValueType.seconds(zero: true), 2], example: "linger_timeout 1"
        Seconds for which a connection that we close goes on reading, so that a client that is still sending gets its
        answer (a 413, for instance) rather than a reset.
      TEXT

      directive :shutdown_timeout, <<~TEXT, value: [ValueType.seconds(zero: true), 30], example: "shutdown_timeout 10"
        Seconds that TERM and INT leave to running requests. Then they are cancelled. A second signal cancels at once.
      TEXT

      directive :drain_delay, <<~TEXT, value: [ValueType.seconds(zero: true).optional, nil], example: "drain_delay 10"
        Seconds after TERM in which `/readyz` says no and connections are still accepted, so that a balancer that asks
        there has taken us out before the first client is turned away. nil: none in development and tests, else 5.
      TEXT

      topic "How large"

      directive :max_head_size, <<~TEXT, value: [ValueType.bytes(least: 1_024), 65_536], example: 'max_head_size "16 KiB"'
        Bytes in the head of a request. Beyond: 431.
      TEXT

      directive :max_uri_length, <<~TEXT, value: [ValueType.bytes(least: 64), 12_288], example: 'max_uri_length "4 KiB"'
        Bytes in the target of a request: path and query. Beyond: 414.
      TEXT

      directive :max_header_count, <<~TEXT, value: [ValueType.count(least: 1), 100], example: "max_header_count 50"
        Header fields in a request. Beyond: 431.
      TEXT

      directive :max_body_size, <<~TEXT, value: [ValueType.bytes, 1 << 30], example: 'max_body_size "10 MiB"'
        Bytes in the body of a request. Beyond: 413.
      TEXT

      directive :body_memory, <<~TEXT, value: [ValueType.bytes, 65_536], example: 'body_memory "256 KiB"'
        Bytes of a request's body that are kept in memory; a longer one goes to a temporary file.
      TEXT

      directive :body_quota, <<~TEXT, value: [ValueType.bytes, 4 << 30], example: 'body_quota "1 GiB"'
        Bytes that all request bodies together may take, in memory and files. Beyond: 503 with Retry-After. It can't be
        less than `max_body_size`.
      TEXT

      topic "Several processes"

      workers = ValueType.new("a whole number, 0 or more and at most 1_000, or :auto", text: ->(text) { (text == "auto") ? :auto : Integer(text, 10, exception: false) }) do |value|
        (value == :auto || (Integer === value && value.between?(0, 1_000))) ? value : ValueType::REFUSED
      end

      directive :workers, <<~TEXT, value: [workers, 0], example: "workers :auto"
        Processes that serve. 0: this one does. From 1 on, this one supervises: it never loads the app, starts a template
        process that does, and keeps so many forks of it serving. :auto: as many as there are processors for us, which a
        container may have fewer of than the machine. Where the environment has a WEB_CONCURRENCY and the configuration no
        `workers`, that counts; a WEB_CONCURRENCY of 1 is this process alone.
      TEXT

      directive :directory, <<~TEXT, value: [ValueType.text("a path").optional, nil], example: 'directory "/srv/shop/current"'
        Where a new app is looked for when the workers are replaced (USR1). A link is followed each time, so that it may
        lead to the newest release. Without it, the directory that the server was started in.
      TEXT

      directive :boot_timeout, <<~TEXT, value: [ValueType.seconds, 60], example: "boot_timeout 120"
        Seconds in which a template must have loaded the app, and a worker must serve. A worker that does not is killed.
      TEXT

      directive :worker_timeout, <<~TEXT, value: [ValueType.seconds(zero: false).optional, 60], example: "worker_timeout 20"
        Seconds for which a worker may be silent. Then its loop stands still, with all its requests: it is asked for the
        backtraces of all its fibers, which go to the error log, and replaced. Never one that a debugger looks at. nil: as
        long as it likes.
      TEXT

      directive :recycle, <<~TEXT, memory: [ValueType.bytes(least: 1 << 20).optional, nil], requests: [ValueType.count(least: 1).optional, nil], example: 'recycle memory: "500 MiB", requests: 100_000'
        When a worker is replaced by a fresh one: beyond so many bytes (its proportional set size), after so many requests,
        both give or take a tenth, so that not all go at once. It finishes what it has begun. nil: never.
      TEXT

      directive :sidecar, <<~TEXT, value: [ValueType.text("a command"), [].freeze], many: true, example: 'sidecar "bin/jobs"'
        A program that runs beside the workers, such as a job runner. It is started again when it ends, gets a TERM when
        the server ends, and is restarted when the app is loaded anew.
      TEXT

      directive :before_fork, <<~TEXT, value: [ValueType::BLOCK, [].freeze], many: true, example: "before_fork { Searcher.load_index }"
        A block that the template runs once, when it has loaded the app: what is done here, all workers share. Close here
        what they must not share.
      TEXT

      directive :after_fork, <<~TEXT, value: [ValueType::BLOCK, [].freeze], many: true, example: "after_fork { |number| Statistics.start(number) }"
        A block that each worker runs before it serves, with its number, from 0: threads and connections begin here.
      TEXT

      directive :before_worker_exit, <<~TEXT, value: [ValueType::BLOCK, [].freeze], many: true, example: "before_worker_exit { Statistics.flush }"
        A block that each worker runs when it has answered its last request, with its number.
      TEXT

      topic "How requests are run"

      directive :request_body, <<~TEXT, value: [ValueType.one_of(:buffer, :stream), :buffer], path: [ValueType.paths.optional, nil], example: 'request_body :stream, path: "/uploads"'
        :buffer: a request starts when its body is complete, so that a slow upload takes no place of `max_in_flight`, and
        `rack.input` rewinds. :stream: it starts with its head, and `rack.input` waits for what is still to come; with
        `path:`, only for paths that begin so.
      TEXT

      directive :cancel_on_disconnect, <<~TEXT, value: [ValueType.flag, false], example: "cancel_on_disconnect true"
        Whether a request whose client has left is cancelled at its present or next wait, and its answer's body closed.
        Leave it off where a request that has begun to change something must end.
      TEXT

      directive :underscore_headers, <<~TEXT, value: [ValueType.one_of(:drop, :pass), :drop], example: "underscore_headers :pass"
        What becomes of header fields with an underscore in their name. In the env X_Forwarded_For could not be told from
        X-Forwarded-For, so a client could forge what a proxy in front sets.
      TEXT

      networks = ValueType.new('an address or a network, as "127.0.0.1", "10.0.0.0/8" or "fd00::/8", or "unix"') do |value|
        TrustedNetworks.read(value) || ValueType::REFUSED
      end

      directive :trusted_proxies, <<~TEXT, value: [networks, [].freeze], many: true, field: [ValueType.one_of(:x_forwarded, :forwarded), :x_forwarded], example: 'trusted_proxies "10.0.0.0/8", "::1"'
        Proxies whose word counts: from them REMOTE_ADDR, the access log and `rack.url_scheme` follow X-Forwarded-For and
        X-Forwarded-Proto, with `field: :forwarded` the field Forwarded (RFC 7239), and the other kind is dropped. From
        anybody else all such fields are dropped, so that nobody forges them. "unix" is whoever comes through a unix
        socket. None: the fields reach the app as they came, for it to judge.
      TEXT

      directive :early_hints, <<~TEXT, value: [ValueType.flag, false], example: "early_hints true"
        Whether `env["rack.early_hints"]` is there, with which an app sends 103 ahead of its answer. Rails does for each page
        once it is there; some clients take that for the answer, so it is for those who know theirs, a proxy above all.
      TEXT

      directive :stack_depth, <<~TEXT, vm: [ValueType.bytes(least: 16_384).optional, 1 << 20], machine: [ValueType.bytes(least: 65_536).optional, 2 << 20], example: 'stack_depth vm: "2 MiB", machine: "4 MiB"'
        The stacks of a request's fiber: that of Ruby's own frames, and that of C, which YJIT uses too. With the defaults
        a request can call as deep as in a thread, about 10,000 plain methods (8,500 with YJIT on Ruby 4.1); Ruby gives a
        fiber an eighth of that. They cost address space, and memory only as deep as a request has gone. Ruby learns them when
        it boots, so `neverblock serve` starts itself once more with RUBY_FIBER_VM_STACK_SIZE and
        RUBY_FIBER_MACHINE_STACK_SIZE, unless they are set. nil: Ruby's own. An embedded server, and rackup, have what their
        Ruby was started with.
      TEXT

      topic "Who looks after it"

      directive :health, <<~TEXT, value: [address.optional, nil], example: 'health "tcp://0.0.0.0:9090"'
        An address for probes, apart from the app's: `/livez`, `/readyz`, `/stats` with all numbers as JSON, and `/metrics` for
        Prometheus. With workers the supervisor answers there, without them a thread of its own, so that a loop that stands still
        is seen.
      TEXT

      directive :control, <<~TEXT, value: [ValueType.socket_path.optional, nil], example: 'control "tmp/neverblock.sock"'
        A unix socket, for the server's user alone, where `neverblock stop`, `restart`, `reload`, `reopen` and `status`
        find it.
      TEXT

      directive :pid_file, <<~TEXT, value: [ValueType.text("a path").optional, nil], example: 'pid_file "tmp/pids/server.pid"'
        A file that has the number of this process for as long as it runs; the supervisor's, where there are workers. The
        server holds a lock on it (`flock`), which ends with the process: a file that was left behind never keeps a new
        server from starting, even where its number is another process's by then.
      TEXT

      directive :restart_file, <<~TEXT, value: [ValueType.text("a path").optional, "tmp/restart.txt"], example: 'restart_file "/srv/shop/restart.txt"'
        A file, in the app's directory unless its path is absolute: when it is touched, the app is loaded anew as USR1 does
        it. `bin/rails restart` touches the one that is the default. Looked at each second, by `neverblock serve` alone.
        nil: none.
      TEXT

      topic "What it tells"

      directive :access_log, <<~TEXT, value: [ValueType.one_of(false, :common, :json), false], to: [ValueType.sink, $stdout], example: 'access_log :json, to: "log/access.log"'
        A line for each request whose head could be taken in, also where the server refuses it: :common for the Common Log Format, :json for an object with the seconds it took. Written
        to a path or an IO, a second's lines at a time. With an IO that takes no more, such as a pipe nobody reads, lines
        are left out and counted, and no request waits.
      TEXT

      directive :error_log, <<~TEXT, value: [ValueType.sink, $stderr], example: 'error_log "log/error.log"'
        A line for each failing request, with its backtrace, and what the server itself has to say. Control characters
        are escaped, so that no client can forge a line. A path or an IO.
      TEXT

      directive :environment, <<~TEXT, value: [ValueType.text("a name").optional, nil], example: 'environment "production"'
        Set as RACK_ENV before the app is loaded. Without it that of APP_ENV, RACK_ENV or RAILS_ENV, else "development".
      TEXT

      directive :tag, <<~TEXT, value: [ValueType.text("a name").optional, nil], example: 'tag "shop"'
        A name for this server in the title of its process (`ps`, `top`). Without it, that of the working directory.
      TEXT

      TOPICS.each_value(&:freeze)
      TOPICS.freeze

      # @return [Hash{Symbol=>Directive}]
      ALL = TOPICS.values.inject(:merge).freeze

      # @return [Hash{Symbol=>Array(Directive, Directive::Setting)}] by a setting's flat name
      SETTINGS = ALL.each_value.flat_map { |directive| directive.settings.map { |one| [one.name, [directive, one]] } }.to_h.freeze

      # What other servers call it.
      ELSEWHERE = {
        threads: :max_in_flight, min_threads: :max_in_flight, max_threads: :max_in_flight, port: :bind, listen: :bind, host: :bind,
        first_data_timeout: :head_timeout, persistent_timeout: :idle_timeout, keepalive_timeout: :idle_timeout,
        force_shutdown_after: :shutdown_timeout, http_content_length_limit: :max_body_size, stdout_redirect: :error_log,
        max_fast_inline: :max_requests_per_connection, max_keep_alive: :max_requests_per_connection, rack_env: :environment
      }.freeze

      # @param name [Symbol] a word that is none
      # @return [String, nil] what it is here, as a sentence with a blank before it, where others have it
      def self.suggestion(name) = ELSEWHERE[name]&.then { |word| " Here the word is #{word}." }

      # @param name [Symbol] a word that is none
      # @return [String, nil] which may have been meant, as a sentence with a blank before it
      def self.near(name)
        near = DidYouMean::SpellChecker.new(dictionary: ALL.keys).correct(name).first if defined?(DidYouMean::SpellChecker)
        near && " Did you mean #{near}?"
      end
    end
  end
end
