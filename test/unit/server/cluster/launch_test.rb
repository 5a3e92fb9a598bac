# frozen_string_literal: true

require "test_helper"
require "neverblock/server"
require "neverblock/server/cluster/launch"

# How a server starts its successor after a deployment.
class ClusterLaunchTest < Minitest::Test
  include NeverBlockTest::Helpers

  def test_paths_in_the_old_release_are_looked_up_in_the_new_one
    launch = launch(%w[ruby /srv/1/bin/neverblock serve -C /srv/1/config/neverblock.rb /srv/11/config.ru /srv/1],
      env: {"BUNDLE_GEMFILE" => "/srv/1/Gemfile"})
    assert_equal %w[ruby /srv/current/bin/neverblock serve -C /srv/current/config/neverblock.rb /srv/11/config.ru /srv/1], launch.command
    assert_equal({"BUNDLE_GEMFILE" => "/srv/current/Gemfile", "A" => "b", "C" => "d"}, launch.environment({"C" => "d"}))
  end

  # Bundler 4 sets both.
  def test_the_lock_is_the_new_release_s_too
    launch = launch(%w[ruby], env: {"BUNDLE_GEMFILE" => "/srv/1/Gemfile", "BUNDLE_LOCKFILE" => "/srv/1/Gemfile.lock"})
    assert_equal "/srv/current/Gemfile.lock", launch.environment["BUNDLE_LOCKFILE"]
  end

  def test_paths_elsewhere_are_kept
    launch = launch(%w[/usr/bin/ruby /usr/local/bin/neverblock], env: {"BUNDLE_GEMFILE" => "/srv/Gemfile"})
    assert_equal %w[/usr/bin/ruby /usr/local/bin/neverblock], launch.command
    assert_equal "/srv/Gemfile", launch.environment["BUNDLE_GEMFILE"]
    assert_equal({"A" => "b"}, launch(%w[ruby], env: {}).environment)
  end

  def test_processes_are_started_there
    Dir.mktmpdir("nb") do |folder|
      folder = File.realpath(folder)
      %w[1 2].each { |name| Dir.mkdir("#{folder}/#{name}") }
      File.symlink("2", "#{folder}/current")
      File.write("#{folder}/2/program.rb", "puts Dir.pwd, ENV['NAME'], IO.for_fd(ARGV[0].to_i).read")
      output = assert_ruby(<<~RUBY)
        require "neverblock/server/cluster/launch"
        reader, writer = IO.pipe
        writer << "from above"
        writer.close
        launch = NeverBlock::Server::Cluster::Launch.new([#{RbConfig.ruby.dump}, "--disable-gems", #{"#{folder}/1/program.rb".dump}, reader.fileno.to_s],
          directory: #{"#{folder}/current".dump}, origin: #{"#{folder}/1".dump}, env: {})
        Process.wait(launch.spawn({"NAME" => "x"}, [reader]))
      RUBY
      assert_equal ["#{folder}/2", "x", "from above"], output.lines(chomp: true)
      assert_raises(Errno::ENOENT) { NeverBlock::Server::Cluster::Launch.new(["/no/such/program"], directory: folder).spawn({}, []) }
    end
  end

  private

  def launch(command, env:)
    NeverBlock::Server::Cluster::Launch.new(command, environment: {"A" => "b"}, directory: "/srv/current", origin: "/srv/1", env:)
  end
end
