# frozen_string_literal: true

require_relative "health"

module NeverBlock
  class Server
    # The Rack app of the control socket, a unix socket that only the server's user may use. `neverblock stop`,
    # `restart`, `reload`, `reopen`, `status` and `proxy explain` send their commands here.
    #
    #   POST /reload          # 200 when the new app serves, 500 if it can't be loaded,
    #                         # 409 if the next program has the result
    #   POST /reload?wait=no  # 202: begun; the error log has the result
    #   GET /last-load        # as /reload, for the running load, or else the last one
    #   POST /stop            # 200 when all requests have ended, with one of ENDS
    #   POST /stop?now=yes    # the same, and cancels running requests; also while the server is being stopped
    #   POST /stop?wait=no    # 202
    #   POST /reopen          # 200 when the logs have been opened again, 500 with those that can't be
    #   POST /app/purge?https://example.org/   # a command of the app ({Commands}): 200, or 422 with the reason
    #   GET /stats            # as Health
    # @api private
    class Control
      # Commands that load the app again, and their signals.
      LOADS = {"/reload" => "USR1", "/restart" => "USR2"}.freeze
      ELSEWHERE = "another program takes its place: ask once more"
      COMMAND = %r{\APOST /app/([a-z-]+)\z}
      private_constant :COMMAND
      # Responses to /stop, by whether no request was cancelled.
      ENDS = {true => "stopped", false => "stopped; running requests were cancelled"}.freeze

      # @param subject [#signalled, #load_anew, #last_load, #reopen, #draining?, #stats]
      def initialize(subject)
        @subject = subject
        @health = Health.new(subject)
        @ended = Thread::Queue.new
      end

      # @param env [Hash]
      # @return [Array]
      def call(env)
        wishes = env["QUERY_STRING"].split("&")
        case "#{env["REQUEST_METHOD"]} #{path = env["PATH_INFO"]}"
        when "POST /stop" then stop(wishes)
        when "POST /reload", "POST /restart" then load_anew(LOADS.fetch(path), wishes)
        when "GET /last-load" then loaded(@subject.last_load)
        when "POST /reopen" then reopen
        when COMMAND then ask_app($1, env["QUERY_STRING"])
        else @health.call(env)
        end
      end

      # Answers the clients that wait for the server's end.
      # @param whole [Boolean, nil] whether no request was cancelled; nil: the next program goes on serving
      # @return [void]
      def ended(whole)
        @whole = whole
        @ended.close
      end

      private

      def reopen
        failures = @subject.reopen
        failures.empty? ? answer(200, "the logs have been opened again") : answer(500, failures.join("\n"))
      end

      # The argument is the query as it is: a URL stays one.
      def ask_app(name, argument)
        results = @subject.command(name, argument)
        return answer(422, "no worker serves") if results.empty?
        texts = results.map { |_, _, text| text }.uniq
        if texts.size > 1
          texts = results.map { |worker, _, text| "#{worker}: #{text.gsub("\n", "\n  ")}" }
        elsif results.size > 1
          texts = ["each of #{results.size} workers: #{texts.first.gsub("\n", "\n  ")}"]
        end
        answer((results.all? { |_, good, _| good }) ? 200 : 422, texts.join("\n"))
      end

      # A second TERM would cancel running requests, so it is sent only with now=yes.
      def stop(wishes)
        begun, @stopping = @stopping || @subject.draining?, true
        @subject.signalled("TERM") unless begun
        @subject.signalled("TERM") if wishes.include?("now=yes")
        wishes.include?("wait=no") ? answer(202, "begun") : wait_for_end
      end

      def load_anew(signal, wishes)
        return loaded(@subject.load_anew(signal)) unless wishes.include?("wait=no")
        @subject.signalled(signal)
        answer(202, "begun")
      end

      def loaded(result)
        return answer(409, ELSEWHERE) unless result
        answer((result.first == :loaded) ? 200 : 500, result.last)
      end

      def wait_for_end
        @ended.pop
        ENDS[@whole].then { |text| text ? answer(200, text) : answer(409, ELSEWHERE) }
      end

      def answer(status, text) = [status, {"content-type" => "text/plain"}, ["#{text}\n"]]
    end
  end
end
