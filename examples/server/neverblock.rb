# frozen_string_literal: true

# How examples/server/config.ru is served; docs/configuration.md has every directive.
bind "tcp://127.0.0.1:#{ENV.fetch("PORT", 3000)}"

max_in_flight 1_000               # requests that run at a time; the others wait
queue limit: 5_000, max_wait: 2.0 # beyond that: 503 with Retry-After

max_body_size "1 MiB"             # for /words
shutdown_timeout 10

access_log :common                # to standard output
