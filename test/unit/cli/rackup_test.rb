# frozen_string_literal: true

require "test_helper"
require "support/own_folder"
require "neverblock/cli"
require "fileutils"

# Which app is served, and what keeps it from that.
class CLIRackupTest < Minitest::Test
  include NeverBlockTest::OwnFolder

  Rackup = NeverBlock::CLI::Rackup
  Puma = Struct.new(:app, :rackup, :directory) do
    def wrap(app) = [:wrapped, app]
  end
  APP = ->(_env) { [200, {}, []] }

  def test_the_file_that_is_named_or_config_ru
    File.write("config.ru", "run ->(_env) { :default }")
    File.write("web.ru", "run ->(_env) { :named }")
    {nil => [:default, "config.ru"], "web.ru" => [:named, "web.ru"]}.each do |name, (value, text)|
      rackup = Rackup.new(name)
      rackup.check
      assert_equal [value, text], [rackup.load.call({}), rackup.to_s]
    end
  end

  def test_a_file_that_is_not_there
    error = assert_raises(NeverBlock::ConfigurationError) { Rackup.new("web.ru").check }
    assert_equal "there is no web.ru in #{@folder}. Go to the app's folder, or name its file: neverblock serve path/to/config.ru", error.message
  end

  def test_an_app_that_can_not_be_loaded
    {"raise 'no way'" => /no way \(RuntimeError\)/, "run(" => /SyntaxError|syntax error/, "require 'no/such/file'" => /LoadError/,
     "def deep = deep\ndeep" => /stack level too deep \(SystemStackError\)/}.each do |text, message|
      File.write("config.ru", text)
      error = assert_raises(NeverBlock::CLI::AppError) { capture_io { Rackup.new(nil).load } }
      assert_match(/\Aconfig\.ru can't be loaded\n/, error.message)
      assert_match message, error.message
      assert_nil error.cause
    end
  end

  def test_what_is_no_app
    File.write("config.ru", "run :nothing")
    error = assert_raises(NeverBlock::CLI::AppError) { Rackup.new(nil).load }
    assert_equal "config.ru runs :nothing, which is not a Rack app: it does not respond to call", error.message
  end

  def test_a_puma_configuration_may_name_the_file_and_its_directory
    FileUtils.mkdir("shop")
    File.write("shop/web.ru", "run ->(_env) { :shop }")
    rackup = Rackup.new(nil, Puma.new(nil, "web.ru", "#{@folder}/shop"))
    rackup.check
    assert_equal ["#{@folder}/shop", "#{@folder}/shop/web.ru"], [rackup.home, rackup.to_s]
    kind, app = rackup.load
    assert_equal [:wrapped, :shop], [kind, app.call({})]
    assert_equal "#{@folder}/shop/config.ru", Rackup.new(nil, Puma.new(nil, nil, "#{@folder}/shop")).to_s
  end

  def test_a_puma_configuration_may_have_the_app_itself
    rackup = Rackup.new(nil, Puma.new(APP))
    rackup.check
    assert_equal ["the app of the Puma configuration", [:wrapped, APP]], [rackup.to_s, rackup.load]
  end

  def test_the_command_line_s_file_goes_before_the_app_of_a_puma_configuration
    File.write("web.ru", "run ->(_env) { :named }")
    rackup = Rackup.new("web.ru", Puma.new(APP))
    assert_equal ["web.ru", :named], [rackup.to_s, rackup.load.last.call({})]
  end
end
