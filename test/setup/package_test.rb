# frozen_string_literal: true

# slow: it builds and installs the gem (30 s)

require "test_helper"
require "fileutils"
require "open3"
require "tmpdir"

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

  def test_the_gem_builds_outside_git_and_works_where_it_is_installed
    copy = copy_project(%w[lib ext exe sig docs README.md CHANGELOG.md LICENSE SECURITY.md .yardopts neverblock.gemspec])
    # mkmf can't compile in a path with a blank: RubyGems' own limit.
    home = Dir.mktmpdir("gems")
    gem_command("build", "neverblock.gemspec", "--output", "#{home}/neverblock.gem", chdir: copy)
    # Rack is installed already, with the development gems.
    gem_command("install", "--local", "--ignore-dependencies", "--no-document", "--install-dir", home, "#{home}/neverblock.gem", chdir: home)
    assert_empty Dir["#{home}/gems/neverblock-*/lib/neverblock/[0-9]*"], "the gem carries another machine's extension"

    environment = clean.merge("GEM_HOME" => home, "GEM_PATH" => [home, *Gem.path].join(File::PATH_SEPARATOR))
    output, status = Open3.capture2e(environment, RbConfig.ruby, "-e", PROGRAM, chdir: "/")
    assert_predicate status, :success?, output
    assert_match(/\A0\.\d+\.\d+\S* .*(epoll|uring|poll)/, output)
    output, status = Open3.capture2e(environment, RbConfig.ruby, "#{home}/bin/neverblock", "--version", chdir: "/")
    assert_predicate status, :success?, output
    assert_match(/\Aneverblock \d/, output)
  ensure
    FileUtils.rm_rf(home) if home
  end

  def test_setup_works_in_a_path_with_blanks_and_does_nothing_the_second_time
    copy = copy_project(%w[bin lib ext exe rakelib demo/Gemfile test/support Rakefile Gemfile Gemfile.lock neverblock.gemspec])
    FileUtils.mkdir_p(File.join(copy, "vendor"))
    File.symlink(File.join(ROOT, "vendor", "bundle"), File.join(copy, "vendor", "bundle"))

    first = setup_command(copy)
    assert_includes first, "Compiling the extension"
    assert_includes first, "Ready: Ruby #{RUBY_VERSION} "
    output, status = Open3.capture2e(clean, RbConfig.ruby, "-I#{copy}/lib", "-e", PROGRAM, chdir: "/")
    assert_predicate status, :success?, output

    assert_equal 1, setup_command(copy).lines.size, "the second time there is nothing to do, and so to say"
    assert_equal 1, setup_command(copy, "--demo").lines.size, "what is ready for the tests is ready for the demo"

    File.write(File.join(@folder, "Gemfile"), "")
    output, status = Open3.capture2e(clean, File.join(copy, "bin/ruby"), "-rbundler", "-e", "puts Bundler.default_gemfile", chdir: @folder)
    assert_predicate status, :success?, output
    assert_equal File.realpath(File.join(@folder, "Gemfile")), output.strip, "a program's own Gemfile counts, not the checkout's"
  end

  private

  def copy_project(names)
    copy = File.join(@folder, "copy")
    names.each do |name|
      next unless File.exist?(File.join(ROOT, name))
      FileUtils.mkdir_p(File.dirname(File.join(copy, name)))
      FileUtils.cp_r(File.join(ROOT, name), File.join(copy, name))
    end
    FileUtils.rm_rf(Dir[File.join(copy, "lib", "neverblock", "[0-9]*")])
    copy
  end

  def setup_command(folder, *options)
    environment = clean.merge("NEVERBLOCK_RUBY" => RbConfig.ruby, "NEVERBLOCK_HOME" => File.join(@folder, "home"))
    output, status = Open3.capture2e(environment, "bin/setup", *options, chdir: folder, stdin_data: "")
    assert_predicate status, :success?, output
    output
  end

  def gem_command(*arguments, chdir:)
    output, status = Open3.capture2e(clean, RbConfig.ruby, "-S", "gem", *arguments, chdir:)
    assert_predicate status, :success?, output
  end

  # The environment without Bundler's variables.
  def clean
    @clean ||= (Bundler.unbundled_env.keys | ENV.keys).to_h { |name| [name, Bundler.unbundled_env[name]] }
      .merge("RUBYOPT" => nil, "RUBYLIB" => nil, "BUNDLE_GEMFILE" => nil, "BUNDLE_LOCKFILE" => nil)
  end
end
