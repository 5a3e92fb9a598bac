# frozen_string_literal: true

# NeverBlock's options in all rows; the rest are its defaults. 10,000 clients wait at once for one response.
backlog 4_096
max_in_flight 12_000
