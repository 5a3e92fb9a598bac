# frozen_string_literal: true

require "fileutils"
require "rbconfig"
require_relative "../../support/peer"

module Conformance
  module HttpCache
    # A cache that the suite is run against: how it is started in front of an origin server.
    #
    #   contestant = Contestant.named("nginx")
    #   contestant.missing                         # => nil, or why it can't be used
    #   contestant.open(origin_port) { |url| … }
    class Contestant
      Peer = NeverBlockTest::Peer
      ROOT = File.expand_path("../../..", __dir__)

      # Names, and what the page calls them.
      ALL = {"neverblock" => "NeverBlock", "plain" => "NeverBlock, fewer options", "nginx" => "nginx", "varnish" => "Varnish"}.freeze

      # With `pass_headers:` headers count as RFC 9111 has it, by Vary alone: the suite's client numbers its requests in
      # a header of its own.
      PLAIN = 'pass_headers: ["*"]'
      # What RFC 9111 permits and the cache does only if told to.
      PERMITTED = "#{PLAIN}, heuristic_ttl: 86_400,\n    statuses: [299, 400, 404, 405, 410, 414, 499, 500, 501, 502, 503, 504, 599]"

      # Seconds until the origin server has to respond, where requests wait.
      PATIENCE = 4
      # What nginx needs so that requests wait for one response, and stale responses are used where they may be. Its
      # own limits of 5 s would end the wait.
      COLLAPSE = <<~NGINX
        proxy_cache_lock on;
        proxy_cache_lock_timeout 30s;
        proxy_cache_lock_age 30s;
        proxy_cache_background_update on;
        proxy_read_timeout #{PATIENCE}s;
      NGINX

      # @param name [String]
      # @param collapse [Boolean] whether requests are to wait for one response; the suite asks one after the other
      # @return [Contestant]
      # @raise [ArgumentError]
      def self.named(name, collapse: false)
        raise ArgumentError, "CACHES= #{name.inspect} is none of #{ALL.keys.join(", ")}" unless ALL.key?(name)
        new(name, collapse:)
      end

      # @return [String]
      attr_reader :name

      # @param name [String] one of {ALL}
      # @param collapse [Boolean]
      def initialize(name, collapse: false)
        @name = name
        @collapse = collapse
      end

      # @return [String] for people
      def title = ALL.fetch(name)

      # @return [Boolean] whether it is ours
      def ours? = %w[neverblock plain].include?(name)

      # @return [String, nil] why it can't be used
      def missing = ours? ? nil : Peer.missing(program)

      # @return [String] its version
      def version
        return File.read(File.join(ROOT, "lib/neverblock/version.rb"))[/"(.+)"/, 1] if ours?
        IO.popen([Peer.find(program), (name == "nginx") ? "-v" : "-V"], err: %i[child out], &:read)[/\d+\.\d+\.\d+/].to_s
      end

      # Starts it; its processes end with the block.
      # @param origin [Integer] the port of the origin server
      # @yieldparam url [String]
      # @return [Object] the block's value
      def open(origin)
        port = Peer.free_port
        peer = Peer.start { |folder| send(ours? ? :neverblock : name, folder, port, origin) }
        peer.until_ready { Peer.listens?(port) }
        yield "http://127.0.0.1:#{port}"
      ensure
        peer&.stop
      end

      private

      def options
        return if @collapse
        (name == "plain") ? PLAIN : PERMITTED
      end

      def program = (name == "varnish") ? "varnishd" : name

      def neverblock(folder, port, origin)
        File.write("#{folder}/proxy.rb", <<~RUBY)
          bind "tcp://127.0.0.1:#{port}"
          upstream "http://127.0.0.1:#{origin}"
          proxy cache: "memory:64m", cache_options: {
            #{options}
          }#{", options: {timeouts: {first_byte: #{PATIENCE}}}" if @collapse}
        RUBY
        [RbConfig.ruby, "-I#{ROOT}/lib", "#{ROOT}/exe/neverblock", "proxy", "-C", "#{folder}/proxy.rb"]
      end

      # The cache's part is that of the suite's authors.
      def nginx(folder, port, origin)
        FileUtils.mkdir_p("#{folder}/cache")
        temporary = %w[client_body fastcgi uwsgi scgi].map { |kind| "#{kind}_temp_path #{folder}/#{kind};" }.join("\n")
        File.write("#{folder}/nginx.conf", <<~NGINX)
          daemon off;
          pid #{folder}/nginx.pid;
          error_log stderr crit;
          #{"user root;" if Process.uid.zero?}
          events { worker_connections 2048; }
          http {
            access_log off;
            #{temporary}
            proxy_cache_path #{folder}/cache levels=1:2 keys_zone=my-cache:8m max_size=1000m inactive=600m;
            proxy_temp_path #{folder}/cache/tmp;
            server {
              listen 127.0.0.1:#{port};
              location / {
                proxy_pass http://127.0.0.1:#{origin};
                proxy_cache my-cache;
                proxy_cache_revalidate on;
                #{COLLAPSE if @collapse}
              }
            }
          }
        NGINX
        [Peer.find("nginx"), "-e", "stderr", "-p", folder, "-c", "#{folder}/nginx.conf"]
      end

      # The parameters are those of the suite's authors.
      def varnish(folder, port, origin)
        parameters = {default_ttl: 0, default_grace: 0, default_keep: 3600}.flat_map { |name, value| ["-p", "#{name}=#{value}"] }
        [Peer.find("varnishd"), "-F", "-j", "none", "-n", "#{folder}/varnish", "-a", "127.0.0.1:#{port}", "-b", "127.0.0.1:#{origin}",
          *parameters, *(["-p", "first_byte_timeout=#{PATIENCE}"] if @collapse), "-s", "malloc,64M"]
      end
    end
  end
end
