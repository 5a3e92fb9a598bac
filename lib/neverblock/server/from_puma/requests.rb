# frozen_string_literal: true

require_relative "topic"

module NeverBlock
  class Server
    module FromPuma
      # Puma's words for how requests are run and answered.
      # @api private
      module Requests
        extend Topic

        TITLE = "Requests"

        word :threads, <<~TEXT, here: :max_in_flight do |least, most = least|
          A process runs up to `max_in_flight` (1,000) requests at a time, each in a fiber, so there is no number of
          threads, and `threads 3, 5` sets nothing. Resources that were sized to it are too small now, above all the
          database pool (`RAILS_MAX_THREADS` in `config/database.yml`): enlarge it, or lower `max_in_flight`.
          `threads 1` makes requests run one after the other, for apps that are not thread-safe: it becomes
          `max_in_flight 1`.
        TEXT
          least, most = Integer(least), Integer(most)
          raise ArgumentError, "the minimum of threads (#{least}) is more than the maximum (#{most})" if least > most
          raise ArgumentError, "the number of threads (#{most}) is not above 0" if most < 1
          if most == 1
            "#{set(:max_in_flight, 1)}: one request at a time. If the app is thread-safe, take it out"
          else
            many_at_once
          end
        end

        word :max_io_threads, <<~TEXT
          Needs nothing: every request that waits lets the others go on. There is no `env["puma.mark_as_io_bound"]`;
          write `env["puma.mark_as_io_bound"]&.call`.
        TEXT

        word(:first_data_timeout, <<~TEXT, here: :head_timeout) { |seconds| set(:head_timeout, Integer(seconds)) }
          The seconds for a request's whole head. The default is 15, Puma's 30.
        TEXT

        word(:persistent_timeout, <<~TEXT, here: :idle_timeout) { |seconds| set(:idle_timeout, Integer(seconds)) }
          The same under another name. The default is 75, Puma's 65.
        TEXT

        word :idle_timeout, <<~TEXT
          Has no counterpart: with Puma it ends a server without requests for so long. (Our `idle_timeout` is Puma's
          `persistent_timeout`.)
        TEXT

        word :max_keep_alive, <<~TEXT, also: :max_fast_inline, here: :max_requests_per_connection do |number|
          The same under another name. The default is no bound, Puma's 999.
        TEXT
          next if number.nil? || last(:enable_keep_alives) == false
          set(:max_requests_per_connection, Float(number).infinite? ? nil : Integer(number))
        end

        word :enable_keep_alives, "`false` becomes `max_requests_per_connection 1`.",
          here: :max_requests_per_connection do |enabled = true|
          enabled ? "as it is here anyway" : set(:max_requests_per_connection, 1)
        end

        word :queue_requests, <<~TEXT
          Needs nothing: a request starts when it is complete, and idle or slow connections take no place of
          `max_in_flight` (`request_body`).
        TEXT

        word :wait_for_less_busy_worker, <<~TEXT
          Needs nothing: a worker with more connections than the others leaves new ones to them, and a full worker
          accepts none while another one has room.
        TEXT

        word(:http_content_length_limit, "The same under another name. The default is 1 GiB, Puma's none.",
          here: :max_body_size) do |limit|
          limit ? set(:max_body_size, Integer(limit)) : "as it is here: #{shown(:max_body_size)}"
        end

        word :supported_http_methods, <<~TEXT
          Has no counterpart: all methods reach the app, which can respond with 405 itself.
        TEXT

        word(:early_hints, "The same, and off by default too.", here: :early_hints) do |answer = true|
          set(:early_hints, answer ? true : false)
        end

        word :fiber_per_request, "Needs nothing: every request has a fiber and its storage of its own.",
          also: :clean_thread_locals
        word :io_selector_backend,
          "Has no counterpart: the engine depends on the kernel; `NEVERBLOCK_ENGINE` forces one."

        word(:rack_url_scheme, "The same: `env[\"rack.url_scheme\"]` is set around the app.") do |scheme = nil|
          @around[:scheme] = scheme&.to_s
          nil
        end

        word :set_remote_address, <<~TEXT, here: :bind do |from = :socket|
          `:localhost`, a text and `header:` are the same: `env["REMOTE_ADDR"]` is set around the app, while the
          access log has the peer's address. `trusted_proxies` changes both, for trusted addresses only. With
          `proxy_protocol:` every address is `?proxy=required`: a connection without that header is closed, which Puma
          accepts.
        TEXT
          @around[:remote] = remote(from)
          nil
        end

        word :lowlevel_error_handler, <<~TEXT do |handler = nil, &block|
          The same for exceptions of the app: the handler is called with the exception, the env and the status, as
          many of them as it takes, and returns the response. It is not called for requests that are refused before
          they reach the app.
        TEXT
          @around[:on_error] = handler || block ||
            raise(ArgumentError, "it takes a block, or an object that responds to call")
          nil
        end

        word :out_of_band, <<~TEXT
          Is not run: with many requests at a time there is hardly a moment between two. The larger heap makes garbage
          collections rare, so starting them by hand is not needed.
        TEXT

        private

        def many_at_once
          "sets nothing: each process runs up to max_in_flight (1,000 by default) requests at a time, " \
            "each in a fiber. A database pool that was sized to the threads, as by RAILS_MAX_THREADS in " \
            "config/database.yml, is too small for that: enlarge it, or say max_in_flight in config/neverblock.rb " \
            "and read both, -C config/puma.rb -C config/neverblock.rb"
        end

        def remote(from)
          case from
          in :socket then nil
          in :localhost then ->(_env) { "127.0.0.1" }
          in String then ->(_env) { from }
          in {header: String => field}
            name = "HTTP_#{field.upcase.tr("-", "_")}"
            ->(env) { env[name]&.split(/[\s,]/)&.first }
          in {proxy_protocol: _} then nil
          else raise ArgumentError, "it takes :socket, :localhost, a text, header: or proxy_protocol:"
          end
        end
      end
    end
  end
end
