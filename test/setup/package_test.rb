# frozen_string_literal: true

# slow: it builds and installs the gem (30 s)

require "test_helper"
require "fileutils"
require "support/outside"
require "support/serve_process"

# The ways to install this project: as a gem built and installed elsewhere, and as a checkout in an awkward place, set
# up by bin/setup.
class PackageTest < Minitest::Test
  ROOT = NeverBlockTest::ROOT
  PROGRAM = 'require "neverblock"; puts NeverBlock.run { [NeverBlock::VERSION, NeverBlock.engine].join(" ") }'

  def setup
    @folder = Dir.mktmpdir("place with blanks")
  end

  def teardown
    FileUtils.rm_rf(@folder)
  end

  # With the gem that it needs, and none of the development bundle.
  def test_the_gem_builds_outside_git_and_works_where_it_is_installed
    copy = NeverBlockTest::Outside.copy_project(File.join(@folder, "copy"), NeverBlockTest::Outside::PACKAGED)
    # mkmf can't compile in a path with a blank: RubyGems' own limit.
    home = Dir.mktmpdir("gems")
    outside("gem", "build", "neverblock.gemspec", "--output", "#{home}/neverblock.gem", chdir: copy)
    NeverBlockTest::Outside.install_gems(home, "rack")
    environment = {"GEM_HOME" => home, "GEM_PATH" => home}
    outside("gem", "install", "--local", "--no-document", "#{home}/neverblock.gem", chdir: home, environment:)
    assert_empty Dir["#{home}/gems/neverblock-*/lib/neverblock/[0-9]*"], "the gem carries another machine's extension"

    assert_match(/\A0\.\d+\.\d+\S* .*(epoll|uring|poll)/, outside("ruby", "-e", PROGRAM, chdir: "/", environment:))
    assert_equal "neverblock rack\n", outside("ruby", "-e", "puts (Gem::Specification.map(&:name) & %w[async neverblock rack standard]).sort.join(' ')", chdir: "/", environment:)
    assert_match(/\Aneverblock \d/, outside("ruby", "#{home}/bin/neverblock", "--version", chdir: "/", environment:))
    served_by_the_gem(home, environment)
  ensure
    FileUtils.rm_rf(home) if home
  end

  def test_setup_works_in_a_path_with_blanks_and_does_nothing_the_second_time
    copy = NeverBlockTest::Outside.copy_project(File.join(@folder, "copy"), %w[bin lib ext exe rakelib demo/Gemfile test/support Rakefile Gemfile Gemfile.lock neverblock.gemspec])
    FileUtils.mkdir_p(File.join(copy, "vendor"))
    File.symlink(File.join(ROOT, "vendor", "bundle"), File.join(copy, "vendor", "bundle"))

    first = setup_command(copy)
    assert_includes first, "Compiling the extension"
    assert_includes first, "Ready: Ruby #{RUBY_VERSION} "
    outside("ruby", "-I#{copy}/lib", "-e", PROGRAM, chdir: "/")

    assert_equal 1, setup_command(copy).lines.size, "the second time there is nothing to do, and so to say"
    assert_equal 1, setup_command(copy, "--demo").lines.size, "what is ready for the tests is ready for the demo"

    File.write(File.join(@folder, "Gemfile"), "")
    output = outside(File.join(copy, "bin/ruby"), "-rbundler", "-e", "puts Bundler.default_gemfile", chdir: @folder)
    assert_equal File.realpath(File.join(@folder, "Gemfile")), output.strip, "a program's own Gemfile counts, not the checkout's"
  end

  private

  def served_by_the_gem(home, environment)
    File.write("#{home}/config.ru", 'run ->(_) { [200, {}, ["served"]] }')
    NeverBlockTest::ServeProcess.open(->(_) { home }, command: ["#{home}/bin/neverblock", "serve", "-b", "tcp://127.0.0.1:0"],
      environment: {**NeverBlockTest::Outside.clean, **environment}, library: []) do |served|
      assert_match(/served\z/, served.get("/"))
    end
  end

  def setup_command(folder, *options)
    network = %w[http_proxy https_proxy].to_h { |name| [name, ENV[name]] } # for packages that the machine lacks
    outside("bin/setup", *options, chdir: folder, environment: {**network, "NEVERBLOCK_RUBY" => RbConfig.ruby, "NEVERBLOCK_HOME" => File.join(@folder, "home")})
  end

  def outside(...) = NeverBlockTest::Outside.run(...)
end
