# frozen_string_literal: true

# NeverBlock's options in all rows: 10,000 clients wait at once for one response.
backlog 4_096
max_in_flight 12_000
