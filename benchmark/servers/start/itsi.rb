# frozen_string_literal: true

# Itsi's options in all rows, beside its command line.
workers 1
rackup_file File.expand_path("../app.ru", __dir__)
log_level :error
preload true
# Its default covers the time between two requests too, and closes what is idle for 2 s.
header_read_timeout 300
# Its default, 30 for a thread, answers what exceeds it with an error.
ruby_thread_request_backlog_size 8_192
listen_backlog 4_096
