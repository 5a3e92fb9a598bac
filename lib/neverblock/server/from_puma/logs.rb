# frozen_string_literal: true

require_relative "topic"

module NeverBlock
  class Server
    module FromPuma
      # Puma's directives for logs.
      # @api private
      module Logs
        extend Topic

        TITLE = "Logs"

        word(:log_requests, "`access_log :common`.", here: :access_log) { |which = true| log_requests(which) }
        word(:quiet, "`access_log false`, as it is by default.", here: :access_log) do |which = true|
          log_requests(!which)
        end

        word :stdout_redirect, <<~TEXT, here: %i[access_log error_log] do |stdout = nil, stderr = nil, append = false|
          The access log goes to the first file, the error log to the second; both are appended to, and HUP opens them
          again. What the app itself prints stays where the command sends it: redirect it there.
        TEXT
          kept = []
          kept << set(:access_log_to, path(stdout)) if stdout && requests_logged?
          kept << set(:error_log, path(stderr)) if stderr
          "#{kept.any? ? kept.join(", ") : "no file"}; the app's own output stays where the command sends it" \
            "#{", and files are appended to" unless append}"
        end

        word :custom_logger, "Has no counterpart: lines go to `access_log to:` and `error_log`, a path or an IO."
        word :log_formatter, "Has no counterpart: `access_log :json` and the error log have forms of their own."
        word :debug, "Has no counterpart: the error log has all messages."

        word :mutate_stdout_and_stderr_to_sync_on_write,
          "Needs nothing: standard output and error are always written at once."

        private

        def log_requests(which) = set(:access_log, which ? :common : false)

        # The last call in the file counts.
        def requests_logged?
          call = @calls.reverse_each.find { |one| %i[log_requests quiet].include?(one.row.name) } or return false
          (call.values.fetch(0, true) ? true : false) == (call.row.name == :log_requests)
        end
      end
    end
  end
end
