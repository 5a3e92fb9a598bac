# frozen_string_literal: true

# slow: it starts servers

require "test_helper"
require "neverblock"
require "neverblock/server/restart_file"
require "support/serve_process"
require "fileutils"

# A touched tmp/restart.txt reloads the app, with workers and without.
class RestartFileTest < Minitest::Test
  APP = <<~RUBY
    body = File.exist?("body") ? File.read("body") : "first"
    run ->(_env) { [200, {}, [body]] }
  RUBY
  AN_HOUR = 3_600

  [0, 2].each do |workers|
    define_method(:"test_touched_with_#{workers}_workers") do
      serve(workers) do |served|
        assert_match(/first\z/, served.get("/"))
        %w[second third].each { |body| assert_loaded_anew(served, body, "#{served.folder}/tmp/restart.txt") }
        served.stop
      end
    end

    define_method(:"test_one_of_another_name_with_#{workers}_workers") do
      Dir.mktmpdir("nb") do |folder|
        serve(workers, "restart_file '#{folder}/again'\n") do |served|
          served.addresses
          touch(served, "#{served.folder}/tmp/restart.txt")
          assert_loaded_anew(served, "second", "#{folder}/again")
          assert_equal 1, served.errors.scan("was touched").size
        end
      end
    end
  end

  # Otherwise the new program would restart again and again, and never serve.
  def test_a_time_to_come_is_no_circle
    serve(0) do |served|
      served.addresses
      touch(served, "#{served.folder}/tmp/restart.txt", Time.now + AN_HOUR)
      served.until_true("a new start") { served.errors.scan("info: NeverBlock ").size == 2 }
      touch(served, "#{served.folder}/tmp/restart.txt", Time.now + 2 * AN_HOUR) # is seen, so what was there is not
      served.until_true("another one") { served.errors.scan("info: NeverBlock ").size == 3 }
      assert_equal 2, served.errors.scan("was touched").size
    end
  end

  def test_the_file_of_another_release
    Dir.mktmpdir("nb") do |folder|
      %w[one two].each { |name| FileUtils.mkdir_p("#{folder}/#{name}/tmp") && File.write("#{folder}/#{name}/config.ru", "run ->(_) { [200, {}, ['#{name}']] }") }
      FileUtils.touch("#{folder}/two/tmp/restart.txt", mtime: Time.now - AN_HOUR) # came with the release: not touched since
      File.symlink("one", "#{folder}/current")
      serve(1, "directory '#{folder}/current'\n") do |served|
        served.addresses
        File.symlink("two", "#{folder}/next")
        File.rename("#{folder}/next", "#{folder}/current")
        FileUtils.touch("#{folder}/one/tmp/restart.txt")
        served.signal(:USR1)
        served.until_true("the new release") { served.get("/").end_with?("two") }
        FileUtils.touch("#{folder}/current/tmp/restart.txt")
        served.until_true("a new one of it") { served.errors.scan("workers have been replaced").size == 2 }
        assert_equal 1, served.errors.scan("was touched").size
      end
    end
  end

  def test_off
    file = NeverBlock::Server::RestartFile.new(nil, "/")
    assert_nil file.watch { flunk "nothing was touched" }
  end

  private

  def serve(workers, config = "", &)
    NeverBlockTest::ServeProcess.open(APP, config: "workers #{workers}\nbind 'tcp://127.0.0.1:0'\n#{config}", &)
  end

  def touch(served, path, mtime = Time.now)
    FileUtils.mkdir_p(File.dirname(path))
    FileUtils.touch(path, mtime:)
  end

  def assert_loaded_anew(served, body, path)
    File.write("#{served.folder}/body", body)
    touch(served, path)
    served.until_true("the new app") { served.get("/").end_with?(body) }
    assert_match(/info: #{Regexp.escape(path.delete_prefix("#{served.folder}/"))} was touched$/, served.errors)
  end
end
