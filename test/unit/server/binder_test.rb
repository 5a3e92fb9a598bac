# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "neverblock/server/binder"
require "neverblock/server/configuration"
require "support/runs"
require "tmpdir"

# The sockets a server listens on.
class ServerBinderTest < Minitest::Test
  include NeverBlockTest::Runs

  Address = NeverBlock::Server::Address
  Binder = NeverBlock::Server::Binder

  def setup
    @folder = Dir.mktmpdir("nb")
    @binders = []
  end

  def teardown
    @binders.each(&:close)
    FileUtils.rm_rf(@folder)
  end

  def test_a_free_port
    binder = listen("tcp://127.0.0.1:0")
    port = binder.sockets.first.local_address.ip_port
    assert_operator port, :>, 0
    assert_equal ["tcp://127.0.0.1:#{port}"], binder.addresses
    assert_answers binder.sockets.first, TCPSocket.new("127.0.0.1", port)
  end

  def test_accepted_connections_do_not_delay_small_packets
    socket = listen("tcp://127.0.0.1:0").sockets.first
    client = TCPSocket.new("127.0.0.1", socket.local_address.ip_port)
    server, = socket.accept
    assert server.getsockopt(:TCP, :NODELAY).bool
  ensure
    [client, server].each { |io| io&.close }
  end

  def test_a_name_stands_for_its_addresses_at_one_port
    binder = listen("tcp://localhost:0")
    assert_equal 1, binder.sockets.map { |socket| socket.local_address.ip_port }.uniq.size
    assert_includes binder.addresses, "tcp://127.0.0.1:#{binder.sockets.first.local_address.ip_port}"
    assert_equal binder.sockets.size, binder.addresses.size
  end

  # The bound addresses, the wanted ones, and what each list lacks of the other.
  {
    [%w[tcp://127.0.0.1:PORT], %w[tcp://127.0.0.1:PORT]] => [],
    [%w[tcp://127.0.0.1:PORT], %w[tcp://127.0.0.1:0]] => [],
    [%w[tcp://127.0.0.1:PORT], %w[tcp://localhost:PORT]] => [],
    [%w[tcp://127.0.0.1:PORT unix://FOLDER/a], %w[unix://FOLDER/a tcp://127.0.0.1:PORT]] => [],
    [%w[tcp://127.0.0.1:PORT], %w[tcp://127.0.0.1:PORT unix://FOLDER/a]] => ["bind \"unix://FOLDER/a\" is not served: "],
    [%w[tcp://127.0.0.1:PORT], %w[tcp://127.0.0.1:1]] => ["bind \"tcp://127.0.0.1:1\" is not served: ", "tcp://127.0.0.1:PORT is served on, though"],
    [%w[unix://FOLDER/a], %w[unix://FOLDER/a?proxy=required]] => ["bind \"unix://FOLDER/a?proxy=required\" is not served: ", "unix://FOLDER/a is served on"]
  }.each do |(served, wanted), told|
    define_method(:"test_what_differs_of_#{served.join("_and_")}_where_#{wanted.join("_and_")}_is_wanted") do
      binder = listen(*served.map { |uri| uri.sub("PORT", "0").sub("FOLDER", @folder) })
      port = binder.addresses.first[/\d+\z/]
      made = ->(text) { text.gsub("PORT", port.to_s).gsub("FOLDER", @folder) }
      differences = binder.differences(wanted.map { |uri| Address.parse(made[uri]) })
      assert_equal told.size, differences.size, differences.join("\n")
      told.zip(differences) { |beginning, text| assert text.start_with?(made[beginning]), text }
    end
  end

  def test_all_of_ipv6_takes_ipv4_too
    binder = begin
      listen("tcp://[::]:0")
    rescue NeverBlock::BindError => error
      skip "no IPv6 here: #{error.message}"
    end
    assert_match(/\Atcp:\/\/\[::\]:\d+\z/, binder.addresses.first)
    assert_answers binder.sockets.first, TCPSocket.new("127.0.0.1", binder.sockets.first.local_address.ip_port)
  end

  def test_inside_a_loop
    in_run { assert_equal 1, listen("tcp://127.0.0.1:0").sockets.size }
  end

  def test_an_address_in_use
    taken = listen("tcp://127.0.0.1:0").addresses.first
    error = assert_raises(NeverBlock::BindError) { listen("unix://#{@folder}/a.sock", taken) }
    assert_match(/\A#{taken}: .*in use.*ss -ltnp "sport = :\d+".*another port\..*being stopped.*drain_delay/, error.message)
    assert_kind_of Errno::EADDRINUSE, error.cause
    assert_empty Dir.children(@folder), "all or none"
  end

  def test_an_address_of_another_machine
    error = assert_raises(NeverBlock::BindError) { listen("tcp://192.0.2.1:0") }
    assert_match(/192\.0\.2\.1:0: .*No interface of this machine/, error.message)
  end

  def test_an_unknown_name
    error = assert_raises(NeverBlock::BindError) { listen("tcp://no-such-name.invalid:0") }
    assert_match(/no-such-name\.invalid:0: .*spelt right/, error.message)
  end

  def test_close_frees_the_port
    binder = listen("tcp://127.0.0.1:0")
    address = binder.addresses.first
    binder.close
    assert_empty binder.sockets
    assert_equal [address], listen(address).addresses
  end

  # ---- unix sockets ----

  def test_a_unix_socket
    binder = listen("unix://#{path}?mode=0604")
    assert_equal ["unix://#{path}"], binder.addresses
    assert_equal 0o604, File.stat(path).mode & 0o777
    assert_answers binder.sockets.first, UNIXSocket.new(path)
    binder.close
    assert_empty Dir.children(@folder)
  end

  def test_the_file_of_a_dead_server_is_replaced
    dead = UNIXServer.new(path)
    dead.close
    assert File.socket?(path)
    assert_answers listen("unix://#{path}").sockets.first, UNIXSocket.new(path)
  end

  def test_the_file_of_a_running_server_is_not_replaced
    living = listen("unix://#{path}")
    error = assert_raises(NeverBlock::BindError) { listen("unix://#{path}") }
    assert_match(/#{path}: a server answers there already\. Stop it/, error.message)
    living.sockets.first.accept.first.close # our probe
    assert_answers living.sockets.first, UNIXSocket.new(path)
  end

  def test_a_socket_with_a_full_backlog_is_not_replaced
    full = Socket.new(:UNIX, :STREAM)
    full.bind(Addrinfo.unix(path))
    full.listen(0)
    clients = []
    assert_raises(Errno::EAGAIN) do
      100.times { (clients << Socket.new(:UNIX, :STREAM)).last.connect_nonblock(Addrinfo.unix(path)) }
    end
    error = Timeout.timeout(5) { assert_raises(NeverBlock::BindError) { listen("unix://#{path}") } }
    assert_match(/answers there already/, error.message)
  ensure
    [full, *clients].each { |io| io&.close }
  end

  def test_files_and_links_are_left_alone
    File.write(path, "mine")
    error = assert_raises(NeverBlock::BindError) { listen("unix://#{path}") }
    assert_match(/not a socket\. Remove it/, error.message)
    assert_equal "mine", File.read(path)

    File.symlink("/nowhere", "#{@folder}/link")
    assert_raises(NeverBlock::BindError) { listen("unix://#{@folder}/link") }
    assert File.symlink?("#{@folder}/link")
  end

  def test_a_folder_that_is_not_there
    error = assert_raises(NeverBlock::BindError) { listen("unix://#{@folder}/no/a.sock") }
    assert_match(%r{Make the folder #{@folder}/no first}, error.message)
  end

  def test_unknown_owners
    error = assert_raises(NeverBlock::BindError) { listen("unix://#{path}?owner=no-such-user") }
    assert_match(/no-such-user.*names that this system knows/, error.message)
    assert_empty Dir.children(@folder)
  end

  def test_an_own_owner_and_group
    names = "owner=#{Etc.getpwuid.name}&group=#{Etc.getgrgid(Process.gid).name}"
    listen("unix://#{path}?#{names}")
    assert_equal [Process.uid, Process.gid], File.stat(path).then { |stat| [stat.uid, stat.gid] }
  end

  def test_close_leaves_a_file_that_another_process_has_replaced
    binder = listen("unix://#{path}")
    File.unlink(path)
    UNIXServer.open(path) do
      binder.close
      assert File.socket?(path)
    end
  end

  def test_close_twice_and_without_the_file
    binder = listen("unix://#{path}")
    File.unlink(path)
    2.times { binder.close }
    assert_empty binder.sockets
  end

  # Its files are removed by the last program that has them.
  def test_sockets_of_the_previous_program_are_taken_over
    before = listen("unix://#{path}", "tcp://127.0.0.1:0")
    numbers = before.sockets.map { |socket| socket.dup.tap { |copy| copy.autoclose = false }.fileno }
    after = Binder.inherited(numbers.zip(before.addresses).to_h, before.files.transform_keys(&:to_sym))
    @binders << after
    assert_equal [before.addresses, before.files], [after.addresses, after.files]
    assert_equal [true, false, true], [before.own?, after.own?, Binder.inherited({}, {}, own: true).own?]
    assert after.sockets.all?(&:close_on_exec?)
    assert_answers after.sockets.first, UNIXSocket.new(path)
    after.close
    refute_path_exists path
  end

  # ---- sockets opened by another process ----

  def test_given_sockets_are_used_for_their_addresses
    tcp, unix = TCPServer.new("127.0.0.1", 0), UNIXServer.new(path)
    port = tcp.local_address.ip_port
    binder = listen("unix://#{path}?mode=0600&proxy=required", "tcp://127.0.0.1:#{port}?proxy=required", "tcp://127.0.0.1:0", given: [tcp, unix])
    assert_equal [unix, tcp], binder.sockets.first(2)
    assert_equal ["unix://#{path}?proxy=required", "tcp://127.0.0.1:#{port}?proxy=required"], binder.addresses.first(2)
    assert_equal 3, binder.sockets.size
    refute_equal 0o600, File.stat(path).mode & 0o777, "its permissions are not ours"
    binder.close
    assert File.socket?(path), "its file neither"
  end

  def test_a_link_to_a_given_socket
    unix = UNIXServer.new(path)
    Dir.mkdir("#{@folder}/run")
    File.symlink(@folder, "#{@folder}/run/link")
    assert_equal [unix], listen("unix://#{@folder}/run/link/a.sock", given: [unix]).sockets
  end

  def test_all_of_ipv6_is_all_of_ipv4_too
    given = listen("tcp://[::]:0").sockets.first
    port = given.local_address.ip_port
    binder = listen("tcp://0.0.0.0:#{port}", given: [given])
    assert_equal [[given], ["tcp://[::]:#{port}"], false], [binder.sockets, binder.addresses, binder.own?]
  rescue NeverBlock::BindError => error
    skip "no IPv6 here: #{error.message}"
  end

  def test_where_nothing_is_wanted_all_that_is_given_is
    tcp, unix = TCPServer.new("127.0.0.1", 0), UNIXServer.new(path)
    configuration = NeverBlock::Server::Configuration.new
    @binders << binder = Binder.for(configuration, given: [tcp, unix]).open
    assert_equal [[tcp, unix], ["tcp://127.0.0.1:#{tcp.local_address.ip_port}", "unix://#{path}"]], [binder.sockets, binder.addresses]
    configuration.set(:bind, "unix://#{path}")
    assert_raises(NeverBlock::BindError) { Binder.for(configuration, given: [tcp, unix]).open }
  end

  def test_given_and_not_wanted
    tcp = TCPServer.new("127.0.0.1", 0)
    uri = "tcp://127.0.0.1:#{tcp.local_address.ip_port}"
    ["tcp://127.0.0.1:0", "unix://#{path}", uri.sub("127.0.0.1", "127.0.0.2")].each do |wanted|
      error = assert_raises(NeverBlock::BindError) { listen(wanted, given: [tcp]) }
      assert_equal "#{uri} was handed over to us, and no bind names it. Write: bind \"#{uri}\", or take it out of the .socket unit", error.message
    end
    assert_empty Dir.children(@folder)
  ensure
    tcp&.close
  end

  private

  def path = "#{@folder}/a.sock"

  def listen(*uris, **)
    binder = Binder.new(uris.map { |uri| Address.parse(uri) }, backlog: 16, **)
    @binders << binder
    binder.open
  end

  def assert_answers(listener, client)
    server, = listener.accept
    client << "x"
    client.close
    assert_equal "x", server.read
  ensure
    server&.close
  end
end
