# frozen_string_literal: true

require_relative "peer"
require_relative "scripted_upstream"

module NeverBlockTest
  # Servers of four kinds that record which paths they were asked for. For tests that include Served.
  #
  #   url = start_back_end("nginx")    # "ours", "puma", "nginx" or "script"
  #   seen                             # => ["/one", "/two"]
  #   stop_recorded
  module RecordedBackEnds
    NAMES = %w[ours puma nginx script].freeze
    PATH = ->(env) { [200, {}, [env["PATH_INFO"]]] }

    # @param name [String] one of NAMES
    # @param app [#call] of "ours" and "puma"
    # @return [String] its URL
    def start_back_end(name, app = PATH)
      @paths = []
      recorded = ->(env) do
        @paths << env["PATH_INFO"]
        env["rack.input"].read
        app.call(env)
      end
      send("start_#{name}", recorded)
    end

    # @return [Array<String>] paths
    def seen
      return File.readlines("#{@nginx.folder}/access", chomp: true) if @nginx
      return @script.requests.map { |text| text[/ (\S+)/, 1] } if @script
      @paths
    end

    # @return [void]
    def stop_recorded
      @nginx&.stop
      @puma&.stop(true)
      @script&.close
    end

    private

    def start_ours(app)
      back = NeverBlock::Server.new(app, bind: "tcp://127.0.0.1:0", error_log: errors).start
      servers << back
      back.addresses.first.sub("tcp:", "http:")
    end

    def start_puma(app)
      skip "puma is not among the gems here" unless Gem.loaded_specs.key?("puma")
      before, $VERBOSE = $VERBOSE, nil
      %w[puma puma/server].each { |file| require file }
      $VERBOSE = before
      @puma = Puma::Server.new(app, nil, {min_threads: 1, max_threads: 4, log_writer: Puma::LogWriter.null})
      port = @puma.add_tcp_listener("127.0.0.1", 0).addr[1]
      @puma.run
      "http://127.0.0.1:#{port}"
    end

    def start_script(_app)
      @script = ScriptedUpstream.new(->(peer) { peer << Fronted::OK while peer.request })
      @script.url
    end

    def start_nginx(_app)
      reason = Peer.missing("nginx") and skip reason
      port = Peer.free_port
      @nginx = Peer.start(signal: "QUIT") do |folder|
        File.write("#{folder}/nginx.conf", configuration(folder, port))
        [Peer.find("nginx"), "-e", "stderr", "-p", folder, "-c", "nginx.conf"]
      end
      @nginx.until_ready { Peer.listens?(port) }
      "http://127.0.0.1:#{port}"
    end

    def configuration(folder, port)
      temporary = %w[client_body proxy fastcgi uwsgi scgi].map { |name| "#{name}_temp_path #{folder}/#{name};" }.join("\n")
      <<~NGINX
        daemon off;
        pid #{folder}/pid;
        events {}
        http {
          #{temporary}
          log_format path "$uri";
          access_log #{folder}/access path;
          server {
            listen 127.0.0.1:#{port};
            location / { return 200 "$uri"; }
          }
        }
      NGINX
    end
  end
end
