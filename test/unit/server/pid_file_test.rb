# frozen_string_literal: true

require "test_helper"
require "neverblock/server"
require "tmpdir"

# Server::PidFile: the file's lock tells its owner.
class ServerPidFileTest < Minitest::Test
  include NeverBlockTest::Helpers

  def setup
    @folder = Dir.mktmpdir("nb")
    @path = "#{@folder}/server.pid"
  end

  def teardown = FileUtils.rm_rf(@folder)

  def test_it_has_the_number_while_it_runs
    file = NeverBlock::Server::PidFile.new(@path)
    file.write
    assert_equal "#{Process.pid}\n", File.read(@path)
    file.remove
    refute_path_exists @path
  end

  def test_a_forked_child_leaves_it
    file = NeverBlock::Server::PidFile.new(@path)
    file.write
    child = fork do
      file.remove
      exit!(0)
    end
    Process.wait(child)
    assert_path_exists @path
    file.remove
  end

  # After a reboot the number may be any process's; our parent runs, and so does process 1.
  {"process 1" => "1\n", "our parent" => "#{Process.ppid}\n", "0" => "0\n", "-1" => "-1\n", "nothing" => "", "a text" => "no number, and longer than one\n"}.each do |name, text|
    define_method(:"test_a_stale_one_with_#{name.tr(" ", "_")}") do
      File.write(@path, text)
      file = NeverBlock::Server::PidFile.new(@path)
      file.write
      assert_equal "#{Process.pid}\n", File.read(@path)
      file.remove
    end
  end

  def test_the_file_of_a_running_server
    other = start_other("sleep")
    assert_raises_with(/server\.pid says that a server runs already, as process #{other}\. Stop it/)
    assert_equal "#{other}\n", File.read(@path)
    Process.kill(:KILL, other)
    Process.wait(other)
    NeverBlock::Server::PidFile.new(@path).tap(&:write).remove
    refute_path_exists @path
  end

  # A forked child holds the lock as long as it lives.
  def test_a_process_that_a_killed_server_has_left_behind
    other = start_other("child = fork { sleep }; puts child; $stdout.flush; sleep")
    child = Integer(@output.gets)
    Process.kill(:KILL, other)
    Process.wait(other)
    file = NeverBlock::Server::PidFile.new(@path)
    file.write
    assert_equal "#{Process.pid}\n", File.read(@path)
    file.remove
  ensure
    Process.kill(:KILL, child) if child
  end

  def test_another_servers_is_left_alone
    file = NeverBlock::Server::PidFile.new(@path)
    file.write
    File.unlink(@path)
    File.write(@path, "1\n")
    file.remove
    assert_equal "1\n", File.read(@path)
  end

  def test_none
    NeverBlock::Server::PidFile.new(nil).tap(&:write).remove
  end

  private

  def start_other(code)
    @output, input = IO.pipe
    program = "require 'neverblock/server'; NeverBlock::Server::PidFile.new(#{@path.inspect}).write; #{code}"
    environment, *ruby = BARE
    library = [*ENV["NEVERBLOCK_TEST_LIBRARY"], File.join(NeverBlockTest::ROOT, "lib")].flat_map { |folder| ["-I", folder] }
    pid = Process.spawn(environment, *ruby, *library, "-e", program, out: input)
    input.close
    wait_until("the file") { File.exist?(@path) && File.read(@path) == "#{pid}\n" }
    pid
  end

  def assert_raises_with(message)
    error = assert_raises(NeverBlock::ConfigurationError) { NeverBlock::Server::PidFile.new(@path).write }
    assert_match message, error.message
  end
end
