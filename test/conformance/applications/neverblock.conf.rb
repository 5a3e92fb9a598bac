# frozen_string_literal: true

# NeverBlock's configuration for an application: log/neverblock.log gets the waits of requests without an answer.
slow_request 10
