# frozen_string_literal: true

require "test_helper"
require "fileutils"
require "net/http"
require "support/doc_block"
require "support/nginx"
require "support/peer"
require "support/serve_process"

# The configuration of nginx in docs/rails.md, which serves pages as files.
class PagesNginxTest < Minitest::Test
  APP = <<~RUBY
    run ->(env) { [200, {}, ["app " + env.values_at("REQUEST_METHOD", "PATH_INFO").join(" ") + "?" + env["QUERY_STRING"]]] }
  RUBY

  def setup
    reason = NeverBlockTest::Peer.missing("nginx") and skip reason
  end

  def test_a_file_is_the_response_to_a_get_without_a_query
    serve do |get|
      assert_equal "page 1", get.call("/users")
      assert_equal "page 2", get.call("/users/pages/2")
      assert_equal "page 2 as xml", get.call("/users/pages/2.xml")
      assert_equal "app GET /users/pages/3?", get.call("/users/pages/3")
      assert_equal "app GET /users?page=2", get.call("/users?page=2")
      assert_equal "app GET /users/pages/2?q=a", get.call("/users/pages/2?q=a")
      assert_equal "app POST /users?", get.call("/users", Net::HTTP::Post)
      assert_equal "app DELETE /users/pages/2?", get.call("/users/pages/2", Net::HTTP::Delete)
      assert_equal "app GET /users/?", get.call("/users/")
    end
  end

  private

  def serve
    NeverBlockTest::ServeProcess.open(APP, "-p", "0", "-b", "tcp://127.0.0.1:0") do |served|
      port = NeverBlockTest::Peer.free_port
      peer = NeverBlockTest::Peer.start(signal: "QUIT") do |folder|
        write(folder, port, served.port)
        NeverBlockTest::Nginx.command(folder)
      end
      peer.until_ready { NeverBlockTest::Peer.listens?(port) }
      yield ->(path, method = Net::HTTP::Get) { Net::HTTP.start("127.0.0.1", port) { |http| http.request(method.new(path, {"Content-Type" => "text/plain"})).body } }
    ensure
      peer&.stop
    end
  end

  def write(folder, port, app)
    {"users.html" => "page 1", "users/pages/2.html" => "page 2", "users/pages/2.xml" => "page 2 as xml"}.each do |path, text|
      FileUtils.mkdir_p(File.dirname("#{folder}/public/#{path}"))
      File.write("#{folder}/public/#{path}", text)
    end
    site = NeverBlockTest::DocBlock.in("docs/rails.md", "nginx").first.code
    {"listen 80;" => "listen 127.0.0.1:#{port};", "/srv/shop/public" => "#{folder}/public", "http://shop" => "http://127.0.0.1:#{app}"}.each do |from, to|
      assert_includes site, from
      site = site.gsub(from, to)
    end
    NeverBlockTest::Nginx.write(folder, site, level: "warn")
  end
end
