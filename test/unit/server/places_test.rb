# frozen_string_literal: true

require "test_helper"
require "tmpdir"
require "neverblock/server"
require "neverblock/server/configuration"
require "neverblock/server/places"

# Files and folders that a server needs beside the app, and those that the next supervisor could not open.
class ServerPlacesTest < Minitest::Test
  def setup = @folder = File.realpath(Dir.mktmpdir("nb"))

  def teardown = FileUtils.rm_rf(@folder)

  def test_all_is_there
    found = places(pid_file: "server.pid", control: "control.sock", error_log: "error.log", bind: "unix://#{@folder}/web.sock", directory: @folder, sidecar: "sleep 5")
    assert_empty found.mistakes
    assert_empty found.rehearse
    assert_empty Dir.children(@folder), "what was opened is gone"
  end

  def test_each_missing_folder_is_named_with_its_setting
    found = places(pid_file: "run/server.pid", bind: "unix://#{@folder}/sockets/web.sock", error_log: "log/error.log").mistakes
    assert_equal 3, found.size
    ["pid_file \"run/server.pid\": there is no folder #{@folder}/run. Make it, or name another file", "there is no folder #{@folder}/log", "there is no folder #{@folder}/sockets"]
      .each { |words| assert(found.any? { |line| line.include?(words) }, "#{words} in #{found}") }
  end

  def test_a_file_in_place_of_a_folder
    File.write(File.join(@folder, "run"), "")
    assert_match(/#{@folder}\/run is not a folder that this user can write to/, places(pid_file: "run/server.pid").mistakes.join)
  end

  def test_programs_that_can_t_be_run
    assert_match(/there is no program no-such-program in PATH/, places(sidecar: "no-such-program --now").mistakes.join)
    assert_match(/there is no program \S+\/tool that this user can run/, places(sidecar: "./tool", directory: @folder).mistakes.join)
    assert_match(/quote/i, places(sidecar: "sleep '5").mistakes.join)
  end

  def test_a_missing_directory
    assert_match(/there is no directory #{@folder}\/app/, places(directory: "#{@folder}/app").mistakes.join)
  end

  def test_a_socket_that_another_server_has_can_t_be_bound
    UNIXServer.open(File.join(@folder, "control.sock")) do
      found = places(control: "control.sock")
      assert_match(/control/, found.rehearse.join)
      assert_empty found.rehearse(control: File.join(@folder, "control.sock")), "the present supervisor has it"
    end
  end

  def test_a_pid_file_that_is_held
    file = NeverBlock::Server::PidFile.new(File.join(@folder, "server.pid"))
    file.write
    found = places(pid_file: "server.pid")
    assert_empty found.rehearse(pid_file: File.join(@folder, "server.pid"))
    file.remove
    assert_empty found.rehearse
  end

  def test_missing_folders_are_told_before_anything_is_opened
    found = places(pid_file: "run/server.pid", control: "control.sock").rehearse
    assert_equal 1, found.size
    assert_match(/there is no folder #{@folder}\/run. Make it, or name another place/, found.first)
  end

  private

  def places(**settings) = NeverBlock::Server::Places.new(NeverBlock::Server::Configuration.new(**settings), @folder)
end
