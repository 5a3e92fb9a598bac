# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"

class CacheCredentialsTest < Minitest::Test
  Credentials = NeverBlock::Cache::Credentials

  def test_what_tells_a_user
    {
      {"HTTP_AUTHORIZATION" => "Basic x"} => [:authorization], {"HTTP_AUTHORIZATION" => ""} => [:authorization],
      {"X-HTTP_AUTHORIZATION" => "x"} => [:authorization], {"HTTP_COOKIE" => "a=b"} => [:cookie], {"HTTP_COOKIE" => ""} => [:cookie],
      {"HTTP_COOKIE" => "a=b", "HTTP_AUTHORIZATION" => "x"} => [:authorization, :cookie],
      {"SSL_CLIENT_CERT" => "x"} => [:client_certificate], {"HTTP_X_SSL_CLIENT_CERT" => "x"} => [:client_certificate],
      {"HTTP_X_FORWARDED_CLIENT_CERT" => "x"} => [:client_certificate], {"HTTP_CLIENT_CERT" => ":x:"} => [:client_certificate],
      {"rack.peer_cert" => Object.new} => [:client_certificate], {"puma.peercert" => Object.new} => [:client_certificate],
      {"SSL_CLIENT_VERIFY" => "SUCCESS"} => [:client_certificate], {"SSL_CLIENT_VERIFY" => "FAILED:expired"} => [:client_certificate],
      {"REMOTE_USER" => "ann"} => [:credential_header], {"HTTP_X_FORWARDED_USER" => "ann"} => [:credential_header],
      {"HTTP_X_API_KEY" => "k"} => [:credential_header], {"HTTP_X_TENANT" => "t"} => [:credential_header],
      {"HTTP_X_TENANT" => "t", "HTTP_COOKIE" => "a", "HTTP_CLIENT_CERT" => "x"} => [:cookie, :client_certificate, :credential_header],
      {"HTTP_X_TENANT" => "t", "HTTP_X_API_KEY" => "k"} => [:credential_header]
    }.each { |env, kinds| assert_equal kinds, Credentials.of(env, names: ["HTTP_X_TENANT"]), env }
  end

  def test_what_tells_none
    [
      {}, {"HTTP_COOKIE" => nil}, {"SSL_CLIENT_VERIFY" => "NONE"}, {"SSL_CLIENT_VERIFY" => nil}, {"HTTP_X_SSL_CLIENT_CERT" => "(null)"},
      {"SSL_CLIENT_CERT" => ""}, {"REMOTE_USER" => ""}, {"REMOTE_USER" => "-"}, {"HTTP_X_OTHER" => "t"}, {"HTTP_ACCEPT" => "*/*"}
    ].each { |env| assert_empty Credentials.of(env), env }
  end

  def test_names
    assert Credentials.name?("HTTP_COOKIE")
    refute Credentials.name?("HTTP_ACCEPT")
    assert_equal "HTTP_X_TENANT_ID", Credentials.entry("X-Tenant-Id")
  end
end
