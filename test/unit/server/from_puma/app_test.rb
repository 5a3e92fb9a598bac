# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "support/puma_files"
require "stringio"

# The app of a Puma configuration, and what such a file puts around it.
class ServerFromPumaAppTest < Minitest::Test
  include NeverBlockTest::PumaFiles

  def test_the_app_of_the_file
    reading("app { |env| [200, {}, [env['x']]] }\nrackup 'a.ru'\nrackup 'b.ru'") do |configuration|
      assert_equal [200, {}, ["y"]], configuration.puma.app.call({"x" => "y"})
      assert_equal "DIR/a.ru", moved(configuration.puma.rackup)
    end
  end

  def test_an_app_that_nothing_is_wanted_of_stays_as_it_is
    app = -> {}
    reading("set_remote_address\nrack_url_scheme nil") { |configuration| assert_same app, configuration.puma.wrap(app) }
  end

  def test_url_scheme_and_remote_address
    {
      "rack_url_scheme 'https'" => {"rack.url_scheme" => "https"},
      "set_remote_address :localhost" => {"REMOTE_ADDR" => "127.0.0.1"},
      "set_remote_address 'me'" => {"REMOTE_ADDR" => "me"},
      "set_remote_address header: 'X-Real-IP'" => {"REMOTE_ADDR" => "10.0.0.1"},
      "set_remote_address header: 'X-None'; rack_url_scheme 'https'" => {"rack.url_scheme" => "https"}
    }.each do |text, difference|
      env = {"REMOTE_ADDR" => "192.0.2.1", "rack.url_scheme" => "http", "HTTP_X_REAL_IP" => "10.0.0.1, 10.0.0.2"}
      reading(text) { |configuration| assert_equal env.merge(difference), configuration.puma.wrap(->(given) { given }).call(env.dup) }
    end
  end

  def test_the_handler_of_errors_answers_with_what_it_takes
    {"|error|" => "[error.message]", "|error, env|" => "[error.message, env['x']]", "|error, env, status|" => "[error.message, env['x'], status]",
     "|*all|" => "[all[0].message, all[2]]"}.zip([%w[no], %w[no y], ["no", "y", 500], ["no", 500]]) do |(parameters, answer), expected|
      reading("lowlevel_error_handler { #{parameters} #{answer} }") do |configuration|
        log = StringIO.new
        assert_equal expected, configuration.puma.wrap(->(_env) { raise "no" }).call({"x" => "y", "rack.errors" => log})
        assert_match(/no \(RuntimeError\)/, log.string)
      end
    end
  end

  def test_a_cancellation_is_no_error_for_the_handler
    reading("lowlevel_error_handler { [500, {}, []] }") do |configuration|
      assert_raises(NeverBlock::Cancelled) { configuration.puma.wrap(->(_env) { raise NeverBlock::Cancelled }).call({}) }
    end
  end
end
