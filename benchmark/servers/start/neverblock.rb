# frozen_string_literal: true

# NeverBlock's options in all rows; the rest are its defaults.
backlog 4_096
max_in_flight 2_000
