# frozen_string_literal: true

require "test_helper"
require "neverblock"

class PatchesTest < Minitest::Test
  include NeverBlockTest::Helpers

  FILES = Dir[File.join(NeverBlockTest::ROOT, "lib/neverblock/patches/*.rb")].map { |path| File.basename(path, ".rb") } - ["rails"]
  RAILS = Dir[File.join(NeverBlockTest::ROOT, "lib/neverblock/patches/rails/*.rb")].map { |path| "rails/#{File.basename(path, ".rb")}" }

  # -- the list

  def test_the_document_lists_every_patch_and_no_other
    document = File.read(File.join(NeverBlockTest::ROOT, "docs/patches.md"))
    assert_equal (FILES + RAILS).sort, document.scan(/^### `([\w\/]+)`/).flatten.sort
  end

  def test_the_document_names_every_method_that_is_patched
    document = File.read(File.join(NeverBlockTest::ROOT, "docs/patches.md"))
    patches.each do |patch|
      section = document[/^### `#{file_of(patch)}`.*?(?=^##|\z)/m]
      patch.targets.each do |target, methods|
        methods.instance_methods(false).push(*methods.private_instance_methods(false)).each do |name|
          spelling = spell(target, name)
          assert_includes section, "`#{spelling}`", "docs/patches.md does not say that #{spelling} is patched"
        end
      end
    end
  end

  def test_one_patch_per_file
    assert_equal FILES.sort, patches.map { |patch| file_of(patch) }.sort
  end

  def test_versions
    needed = NeverBlock::Patches.needed
    assert_equal RUBY_VERSION >= "3.4", needed.include?(NeverBlock::Patches::TCPSocket)
    assert_empty [:Close, :Daemon, :Flock, :Fsync, :Getnameinfo, :TimedWait].map { |name| NeverBlock::Patches.const_get(name) } - needed
  end

  # -- when they are applied

  def test_requiring_changes_nothing_and_the_first_run_does
    output = assert_ruby(<<~RUBY)
      require "neverblock"
      classes = NeverBlock::Patches.needed.flat_map { |patch| patch.targets.to_a }
      patched = -> { classes.count { |target, methods| target < methods } }
      puts patched.call
      NeverBlock.run(patches: false) { }
      puts patched.call
      NeverBlock.run { }
      puts patched.call == classes.size
      ancestors = classes.map { |target, _| target.ancestors }
      NeverBlock.run { }
      puts ancestors == classes.map { |target, _| target.ancestors }
    RUBY
    assert_equal %w[0 0 true true], output.split
  end

  def test_the_patches_work_in_another_ractor
    output = assert_ruby(<<~RUBY, options: ["-W:no-experimental"])
      require "neverblock"
      server = TCPServer.new("127.0.0.1", 0)
      ractor = Ractor.new(server.local_address.ip_port) do |port|
        NeverBlock.run do
          reader, _writer = IO.pipe
          closed = NeverBlock.spawn { reader.read rescue $!.class }
          NeverBlock.pass
          reader.close
          File.open(File::NULL) { |file| file.flock(File::LOCK_EX) }
          TCPSocket.open("localhost", port) { |socket| [socket.peeraddr(true).first, closed.value] }
        end
      end
      puts ractor.respond_to?(:value) ? ractor.value : ractor.take
    RUBY
    assert_equal %w[AF_INET IOError], output.split
  end

  def test_settings_of_the_process_stay_as_they_are
    output = assert_ruby(<<~RUBY)
      require "neverblock"
      settings = -> { [BasicSocket.do_not_reverse_lookup, (Socket.tcp_fast_fallback if Socket.respond_to?(:tcp_fast_fallback))] }
      before = settings.call
      NeverBlock.run { TCPSocket.new("localhost", TCPServer.new("localhost", 0).local_address.ip_port).close }
      puts before == settings.call
    RUBY
    assert_equal "true", output.strip
  end

  def test_outside_a_loop_ruby_runs_its_own_method
    NeverBlock.run {} # applied
    server = TCPServer.new("127.0.0.1", 0)
    socket = TCPSocket.new("localhost", server.local_address.ip_port)
    assert_equal "AF_INET", socket.peeraddr(true).first
    assert_equal 2, Addrinfo.tcp("127.0.0.1", 80).getnameinfo.size
    Tempfile.create do |file|
      assert_equal 0, file.flock(File::LOCK_EX)
      assert_equal 0, file.fsync
      assert_equal 0, file.fdatasync
    end
    assert_nil socket.close
    assert_nil socket.close
  ensure
    server&.close
  end

  private

  def patches
    (NeverBlock::Patches.constants - [:Rails]).map { |name| NeverBlock::Patches.const_get(name) }.grep(Module)
  end

  def file_of(patch)
    words = patch.name[/\w+\z/].gsub(/([A-Z]+)([A-Z][a-z])/, '\1_\2').gsub(/([a-z])([A-Z])/, '\1_\2')
    words.downcase
  end

  # Addrinfo#getnameinfo, Socket.getnameinfo, TCPSocket.new
  def spell(target, name)
    return "#{target}.new" if name == :initialize
    return "#{target.attached_object}.#{name}" if target.singleton_class?
    "#{target}##{name}"
  end
end
