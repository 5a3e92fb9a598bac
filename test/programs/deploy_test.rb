# frozen_string_literal: true

# slow: it starts proxies and servers, and reloads them under load (40 s)

require "test_helper"
require "shellwords"
require "support/behind_proxy"

# The pages in docs/deploy, as they stand there.

# nginx by a unix socket.
class DeployNginxTest < Minitest::Test
  include NeverBlockTest::BehindProxy

  SOCKET = "unix:/run/shop/app.sock"

  private

  def setup
    reason = NeverBlockTest::Peer.missing("nginx") and skip reason
  end

  def behind
    Dir.mktmpdir("nb") do |folder|
      serve(block("nginx.md", "ruby", "workers :auto" => "workers 2", "unix:///run/shop" => "unix://#{folder}")) do |served|
        nginx("server #{SOCKET}" => "server unix:#{folder}/app.sock") { |port, tls| yield NeverBlockTest::BehindProxy::Front.new(port, tls, [served]) }
      end
    end
  end

  def nginx(others, upstream = nil)
    port, tls = Array.new(2) { NeverBlockTest::Peer.free_port }
    peer = NeverBlockTest::Peer.start(signal: "QUIT") do |folder|
      pem = certificate(folder)
      site = block("nginx.md", "nginx", {"listen 80;" => "listen 127.0.0.1:#{port};", "listen 443 ssl;" => "listen 127.0.0.1:#{tls} ssl;",
        "/etc/ssl/shop/certificate.pem" => pem, "/etc/ssl/shop/key.pem" => pem, **others})
      File.write("#{folder}/shop.conf", upstream ? site.sub(/^upstream.*?^}\n/m) { upstream } : site)
      File.write("#{folder}/nginx.conf", main(folder))
      [NeverBlockTest::Peer.find("nginx"), "-e", "stderr", "-p", folder, "-c", "nginx.conf"]
    end
    peer.until_ready { NeverBlockTest::Peer.listens?(port) }
    yield port, tls
  ensure
    peer&.stop
  end

  # What Debian's nginx.conf has around a site, for one process in a folder of its own.
  def main(folder)
    temporary = %w[client_body proxy fastcgi uwsgi scgi].map { |name| "#{name}_temp_path #{folder}/#{name};" }.join("\n")
    <<~NGINX
      daemon off;
      pid #{folder}/nginx.pid;
      error_log stderr warn;
      #{"user root;" if Process.uid.zero?}
      worker_processes 2;
      events { worker_connections 1024; }
      http {
        access_log off;
        #{temporary}
        include #{folder}/shop.conf;
      }
    NGINX
  end
end

# nginx by TCP.
class DeployNginxTcpTest < DeployNginxTest
  private

  def behind
    serve(block("nginx.md", "ruby", {"tcp://127.0.0.1:3000" => "tcp://127.0.0.1:0"}, 1) + "workers 2\n") do |served|
      upstream = block("nginx.md", "nginx", {"127.0.0.1:3000" => "127.0.0.1:#{served.port}"}, 1)
      nginx({}, upstream) { |port, tls| yield NeverBlockTest::BehindProxy::Front.new(port, tls, [served]) }
    end
  end
end

# HAProxy before two servers.
class DeployHaproxyTest < Minitest::Test
  include NeverBlockTest::BehindProxy

  private

  def setup
    reason = NeverBlockTest::Peer.missing("haproxy") and skip reason
  end

  # One of two servers stops, and no client gets an error.
  def go_on(front)
    stopped = front.servers.last
    stopped.stop
  end

  def behind
    app, health = Array.new(2) { NeverBlockTest::Peer.free_port }
    servers = %w[127.0.0.3 127.0.0.4]
    configs = servers.map do |address|
      block("haproxy.md", "ruby", {"workers :auto" => "workers 2", "0.0.0.0:3000" => "#{address}:#{app}", "0.0.0.0:9090" => "#{address}:#{health}", "192.0.2.10" => "127.0.0.1"})
    end
    serve(configs[0]) do |one|
      serve(configs[1]) do |two|
        others = {"192.0.2.1:3000" => "127.0.0.3:#{app}", "192.0.2.2:3000" => "127.0.0.4:#{app}", "port 9090" => "port #{health}"}
        haproxy(others) { |port, tls| yield NeverBlockTest::BehindProxy::Front.new(port, tls, [one, two]) }
      end
    end
  end

  def haproxy(others, number = 0)
    port, tls = Array.new(2) { NeverBlockTest::Peer.free_port }
    peer = NeverBlockTest::Peer.start do |folder|
      others = {"bind :443 ssl crt /etc/ssl/shop/both.pem" => "bind 127.0.0.1:#{tls} ssl crt #{certificate(folder)}", **others} if number.zero?
      File.write("#{folder}/haproxy.cfg", block("haproxy.md", "haproxy", {"bind :80" => "bind 127.0.0.1:#{port}", **others}, number))
      [NeverBlockTest::Peer.find("haproxy"), "-db", "-f", "#{folder}/haproxy.cfg"]
    end
    peer.until_ready { NeverBlockTest::Peer.listens?(port) }
    yield port, (tls if number.zero?)
  ensure
    peer&.stop
  end
end

# HAProxy in TCP mode, which passes the client's address in a PROXY header.
class DeployProxyProtocolTest < DeployHaproxyTest
  private

  def go_on(_front) = nil

  # Header fields are the client's own here.
  def assert_client_is_seen(front)
    assert_equal CLIENT, ask(front, "GET /seen HTTP/1.1\r\n").split.last
  end

  # In this mode a connection to the server belongs to one client.
  def assert_connections_are_kept(_front) = nil

  def behind
    serve(block("haproxy.md", "ruby", {"tcp://0.0.0.0:3000" => "tcp://127.0.0.1:0"}, 1) + "workers 2\n") do |served|
      haproxy({"192.0.2.1:3000" => "127.0.0.1:#{served.port}"}, 1) { |port, _| yield NeverBlockTest::BehindProxy::Front.new(port, nil, [served]) }
    end
  end
end

# Thruster, which starts the server.
class DeployThrusterTest < Minitest::Test
  include NeverBlockTest::BehindProxy

  def test_it_hands_the_end_on
    behind("drain_delay 0\n") do |front|
      served = front.servers.first
      served.stop
      assert_match(/info: stopped$/, served.errors)
    end
  end

  private

  def setup
    skip "thruster is not among the gems here" unless (thruster = Gem.loaded_specs["thruster"])
    skip "thruster's gem is the one without a program, as on preview Rubies" if thruster.platform == Gem::Platform::RUBY
  end

  def behind(more = "")
    port, target = Array.new(2) { NeverBlockTest::Peer.free_port }
    config = block("thruster.md", "ruby", {"workers :auto" => "workers 2", "127.0.0.1:3000" => "127.0.0.1:#{target}", "tmp/neverblock.sock" => "control.sock"})
    environment, command = line(target)
    serve(config + more, command:, environment: {**environment, "HTTP_PORT" => port.to_s}) do |served|
      served.until_true("Thruster") { NeverBlockTest::Peer.listens?(port) }
      yield NeverBlockTest::BehindProxy::Front.new(port, nil, [served])
    end
  end

  # @return [Array(Hash, Array)] the page's command, with the programs of this bundle: environment and words
  def line(target)
    library, exe = %w[lib exe/neverblock].map { |path| File.join(NeverBlockTest::ROOT, path) }
    programs = {"bundle exec thrust" => Gem.bin_path("thruster", "thrust"), "bundle exec neverblock" => "#{RbConfig.ruby} -I#{library} #{exe}"}
    words = Shellwords.split(block("thruster.md", "sh", {"TARGET_PORT=3000" => "TARGET_PORT=#{target}", **programs}))
    environment = words.take_while { |word| word.include?("=") }
    [environment.to_h { |word| word.split("=", 2) }, words.drop(environment.size)]
  end

  def signal_server(served, signal)
    assert_match(/workers have been replaced/, served.command({"USR1" => "reload", "USR2" => "restart"}.fetch(signal)))
  end
end
