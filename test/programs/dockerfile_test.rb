# frozen_string_literal: true

# slow: it builds images without Docker, and compiles the extension (60 s)

require "test_helper"
require "json"
require "net/http"
require "neverblock/server"
require "support/doc_block"
require "support/dockerfile"
require "support/peer"
require "support/rails_template"
require "support/serve_process"

# docs/deploy/dockerfile.md: its Dockerfile's steps, one by one, in clean folders. The app is a clone, as Kamal builds from one, so
# only what bin/vendor has put there and what is committed is in it.
class DockerfileTest < Minitest::Test
  PAGE = "docs/deploy/dockerfile.md"
  LINE, WHOLE = NeverBlockTest::DocBlock.in(PAGE, "dockerfile").map(&:code)
  CONFIG = NeverBlockTest::DocBlock.in(PAGE).first.code

  def setup
    @folder = File.realpath(Dir.mktmpdir("nb"))
    @app = "#{@folder}/app"
    @gems = %w[rack]
  end

  def teardown
    FileUtils.rm_rf(@folder)
  end

  def test_its_image_serves
    rack_app
    build = dockerfile(WHOLE, clone)
    image = build.call
    assert_match(/Compiling the extension of neverblock-/, build.output)
    assert_empty Dir.glob("#{image.path("/app")}/**/*.so"), "the build is with the bundle"
    assert_installable(build.packages)
    assert_equal ["useradd --system #{image.user}", "chown #{image.user} tmp"], build.omitted.grep(/\Auseradd|\Achown/)
    assert_path_exists "#{image.folder}/tmp"
    ports = WHOLE[/^EXPOSE (.*)/, 1].split
    serve(image, ports) do |served|
      assert_match(/from the image\z/, served.get("/"))
    end
  end

  # Without the line, Docker's COPY makes the gem's folder another one.
  def test_a_dockerfile_of_rails_needs_the_line
    rack_app
    steps = "FROM ruby\nWORKDIR /rails\nENV BUNDLE_DEPLOYMENT=1 BUNDLE_PATH=/usr/local/bundle\nCOPY vendor/* ./vendor/\n"
    image = dockerfile(steps, context = clone).call
    assert_equal ["vendor/.keep", "vendor/neverblock"], Dir.glob("vendor/*", File::FNM_DOTMATCH, base: image.folder).sort - ["vendor/."]
    FileUtils.rm_rf("#{@folder}/stages")
    image = dockerfile("#{steps}#{LINE}", context).call
    assert_path_exists "#{image.folder}/vendor/gems/neverblock/neverblock.gemspec"
  end

  private

  # With its Gemfile.lock, and its own git.
  def rack_app
    FileUtils.mkdir_p(["#{@app}/config", "#{@app}/vendor/javascript"])
    File.write("#{@app}/vendor/javascript/.keep", "")
    File.write("#{@app}/Gemfile", %(source "https://rubygems.org"\n\ngem "rack"\n))
    File.write("#{@app}/config.ru", 'run ->(_env) { [200, {}, ["from the image"]] }')
    File.write("#{@app}/config/neverblock.rb", CONFIG)
    checkout = NeverBlockTest::Outside.copy_project("#{@folder}/checkout", [*NeverBlockTest::Outside::PACKAGED, "bin"])
    outside("#{checkout}/bin/vendor", @app, environment: {"NEVERBLOCK_RUBY" => RbConfig.ruby})
    bundle = "#{@folder}/bundle"
    provide(bundle)
    outside("bundle", "lock", "--local", environment: {"BUNDLE_PATH" => bundle})
    outside("git", "init", "-q")
    outside("git", "add", "-A")
    outside("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "All")
  end

  def clone
    outside("git", "clone", "-q", @app, "#{@folder}/clone")
    "#{@folder}/clone"
  end

  # What bundle install would fetch from a registry is there.
  def dockerfile(text, context)
    NeverBlockTest::Dockerfile.new(text, context:, work: "#{@folder}/stages").tap do |build|
      build.before_run { |stage| provide(stage.path("/usr/local/bundle")) if Dir[File.join(stage.root, "usr/local/bundle/ruby/*/gems/*")].empty? }
    end
  end

  def provide(bundle_path)
    gems = NeverBlockTest::Outside.gems_of(bundle_path)
    FileUtils.mkdir_p(gems)
    NeverBlockTest::Outside.install_gems(gems, *@gems)
  end

  # A machine without the lists of packages knows few names.
  def assert_installable(packages)
    assert_equal %w[build-essential git libpq-dev libpq5 liburing-dev liburing2 libyaml-dev pkg-config], packages.sort
    return unless NeverBlockTest::Peer.find("apt-cache")
    known = outside("apt-cache", "pkgnames").lines(chomp: true)
    assert_empty packages - known if known.size > 10_000
  end

  # The image's command with its environment; with free ports in place of its own, which other tests may have.
  def serve(image, ports)
    config = File.join(image.folder, "config/neverblock.rb")
    ports.each { |port| assert_match(/tcp:\/\/0\.0\.0\.0:#{port}"/, File.read(config)) }
    File.write(config, ports.reduce(File.read(config)) { |text, port| text.sub("0.0.0.0:#{port}", "127.0.0.1:0") }.sub("workers :auto", "workers 2"))
    assert_equal %w[bundle exec neverblock serve], image.command
    NeverBlockTest::ServeProcess.open(->(_) { image.folder }, command: ["-S", *image.command], environment: image.environment, ruby: ["-W0"], library: []) { |served| yield served }
  end

  def outside(*words, **) = NeverBlockTest::Outside.run(*words, chdir: @app, **)
end
