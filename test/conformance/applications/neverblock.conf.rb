# frozen_string_literal: true

# What NeverBlock is told for an application: to write into log/neverblock.log what a request waits for that gets no answer.
slow_request 10
