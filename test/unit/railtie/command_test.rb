# frozen_string_literal: true

require "test_helper"
require "minitest/mock"
require "neverblock"
require "neverblock/cli"
require "neverblock/railtie/command"
require "tmpdir"

# What `bin/rails server` becomes, by its options and the configuration. With Rails: test/programs/rails_commands_test.rb.
class RailtieCommandTest < Minitest::Test
  Command = NeverBlock::Railtie::Command
  OPTIONS = {Host: "localhost", Port: 3000, environment: "production", config: "config.ru", restart_cmd: "bin/rails server -p 3000"}.freeze

  def test_a_single_process_gets_its_stacks
    boots = replaced(OPTIONS)
    assert_equal [[{vm: 1 << 20, machine: 2 << 20, small: false}, []]], boots.map { |boot, execs| [boot.except(:command_line), execs] }
  end

  def test_workers_are_started_by_neverblock_serve
    {
      {} => %w[-e production -b tcp://localhost:3000 config.ru], {pid: "tmp/server.pid"} => %w[-e production -b tcp://localhost:3000 --pid-file tmp/server.pid config.ru]
    }.each do |more, arguments|
      assert_equal [arguments], replaced({**OPTIONS, **more}, env: {"WEB_CONCURRENCY" => "3"}).map { |_, exec| exec.drop(3) }
    end
  end

  # It has the address then, which serve reads itself.
  def test_the_file_s_address_goes_to_no_command_line
    in_folder("bind 'tcp://127.0.0.1:1'\nworkers 2") do
      assert_equal [%w[-e production config.ru]], replaced({**OPTIONS, user_supplied_options: []}).map { |_, exec| exec.drop(3) }
    end
  end

  def test_a_daemon_has_no_workers
    _, errors = capture_io { assert_empty replaced({**OPTIONS, daemonize: true}, env: {"WEB_CONCURRENCY" => "3"}) }
    assert_match(/\Aneverblock: -d starts one process, but 3 workers are configured \(WEB_CONCURRENCY, or config\/neverblock\.rb\).*Leave -d out/, errors)
    assert_equal ["", ""], capture_io { assert_empty replaced({**OPTIONS, daemonize: true}) }
  end

  # `run` tells of it, in one line.
  def test_a_wrong_configuration_replaces_nothing
    assert_empty replaced({**OPTIONS, max_in_flight: "many"})
  end

  # The app is not loaded then.
  def test_a_trial_tells_whether_a_next_program_could_start
    {"" => [true, ""], "max_in_fligth 5" => [false, "config/neverblock.rb:1: there is no directive max_in_fligth."], "body_quota 1" => [false, "config/neverblock.rb:1: body_quota 1 is less"],
     "control 'none/control.sock'" => [false, "config/neverblock.rb:1: control \"none/control.sock\": there is no folder"]}.each do |text, (good, told)|
      in_folder(text) do
        reader, writer = IO.pipe
        pid = fork { Command.new(OPTIONS, env: {NeverBlock::Server::Cluster::Trial::VARIABLE => JSON.generate({to: writer.fileno, held: {}})}).replace && exit!(3) }
        writer.close
        assert_equal good ? 0 : 1, Process.wait2(pid).last.exitstatus, text
        assert_operator reader.read, :start_with?, told
      end
    end
  end

  def test_its_name_is_in_the_boot_message
    assert_equal "NeverBlock", Command.new(OPTIONS).to_s
  end

  private

  def in_folder(configuration)
    Dir.mktmpdir("nb") do |folder|
      Dir.mkdir("#{folder}/config")
      File.write("#{folder}/config/neverblock.rb", configuration)
      Dir.chdir(folder) { yield }
    end
  end

  # @return [Array<Array(Hash, Array)>] for each replacement the stacks that were asked for, or nil; and what was executed
  def replaced(options, env: {})
    done = []
    boot = ->(**stacks) { Object.new.tap { |one| one.define_singleton_method(:ensure) { done << [stacks, []] } } }
    NeverBlock::CLI::Boot.stub(:new, boot) do
      NeverBlock::CLI::Boot.stub(:command_line, [RbConfig.ruby, "bin/rails", "server"]) do
        Process.stub(:exec, ->(*words) { done << [nil, words] }) { Command.new(options, env:).replace }
      end
    end
    done
  end
end
