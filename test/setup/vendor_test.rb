# frozen_string_literal: true

# slow: it compiles the extension (60 s)

require "test_helper"
require "support/outside"
require "support/peer"

# bin/vendor, which puts the gem into an app: with an app of Bundler, a Ruby without the development bundle, and no network.
# DockerfileTest has the app on another machine.
class VendorTest < Minitest::Test
  PROGRAM = 'require "neverblock"; puts NeverBlock.run { [NeverBlock::VERSION, NeverBlock.engine].join(" ") }'
  PLACE = "vendor/gems/neverblock"

  def setup
    @folder = File.realpath(Dir.mktmpdir("place with blanks"))
    @checkout = NeverBlockTest::Outside.copy_project("#{@folder}/checkout", [*NeverBlockTest::Outside::PACKAGED, "bin"])
    @app = "#{@folder}/shop"
    @bundle = "#{@folder}/bundle"
    FileUtils.mkdir_p([@app, NeverBlockTest::Outside.gems_of(@bundle)])
    write("Gemfile", %(source "https://rubygems.org"\n\ngem "rack" # of Rack\n))
  end

  def teardown
    FileUtils.rm_rf(@folder)
  end

  # Its own Ruby compiles it: in bundle install, and outside of the app's folder.
  def test_an_app_takes_it_and_bundler_compiles_it
    NeverBlockTest::Outside.install_gems(NeverBlockTest::Outside.gems_of(@bundle), "rack")
    assert_match(/\ANeverBlock #{Regexp.escape(NeverBlock::VERSION)} \(\h{8}\) is in #{Regexp.escape(@app)}\/#{PLACE}/, vendor)
    assert_equal %(source "https://rubygems.org"\n\ngem "rack" # of Rack\n\ngem "neverblock", path: "#{PLACE}"\n), read("Gemfile")
    files = Dir.glob("**/*", base: "#{@app}/#{PLACE}")
    assert_includes files, "LICENSE"

    output, status = in_app("bundle", "exec", "ruby", "-e", PROGRAM)
    refute_predicate status, :success?
    assert_match(/not compiled for Ruby .* bundle install/m, output)
    assert_match(/Compiling the extension/, bundle_install("--local"))
    assert_match(/\A\d+\.\d+\.\d+\S* (epoll|uring|poll)/, in_app!("bundle", "exec", "ruby", "-e", PROGRAM))
    assert_match(/\Aneverblock \d/, in_app!("bundle", "exec", "neverblock", "--version"))
    refute_match(/Compiling/, bundle_install, "once for each Ruby")
    assert_equal files, Dir.glob("**/*", base: "#{@app}/#{PLACE}"), "one machine's build is not in the app's folder"

    again_and_a_later_version
  end

  def test_a_compiler_that_fails_ends_bundle_install_with_its_output
    NeverBlockTest::Outside.install_gems(NeverBlockTest::Outside.gems_of(@bundle), "rack")
    vendor
    write("#{PLACE}/ext/neverblock/neverblock.c", "#error no such luck\n")
    output, status = in_app("bundle", "install", "--local")
    refute_predicate status, :success?
    assert_match(/NeverBlock's extension does not compile: make -j\d+ ended\swith\s2\..*no such luck/m, output)
    assert_match(/It needs a C compiler, make and Ruby's headers/, output)
    refute_match(/vendored_extension\.rb:\d+/, output, "no backtrace")
  end

  def test_in_a_checkout_of_git_the_revision_is_the_commit
    commit = commit_checkout
    assert_match(/\(#{commit}\)/, vendor)
    assert_equal "#{commit}\n", read("#{PLACE}/REVISION")
    File.write("#{@checkout}/lib/neverblock/new.rb", "")
    File.write("#{@checkout}/README.md", "changed")
    assert_refusal(/checkout has changes that no commit has: M README\.md \(and 1 more\)\.$.*git stash -u/m)
    assert_equal "#{commit}\n", read("#{PLACE}/REVISION")
  end

  def test_it_refuses_what_is_no_app
    assert_refusal(/\A\nbin\/vendor takes one argument, the folder of an app; here are 0\.\n  Usage: bin\/vendor/, arguments: [])
    assert_refusal(/\A\n"#{@folder}\/none" is not a folder\.\n  Name the folder of your app/, arguments: ["#{@folder}/none"])
    assert_refusal(/\A\n"#{@folder}\/bundle" has no Gemfile\.\n .*bundle init/, arguments: [@bundle])
    FileUtils.cp("#{@app}/Gemfile", @checkout)
    assert_refusal(/\A\n#{@checkout} is in NeverBlock's own checkout\.\n  Name the folder/, arguments: [@checkout])
  end

  def test_it_refuses_a_folder_of_somebody_else
    write("#{PLACE}/mine.rb", "mine")
    assert_refusal(/#{PLACE} is not bin\/vendor's: it has no file REVISION\.\n  Move it away/o)
    assert_equal "mine", read("#{PLACE}/mine.rb")
    refute_match(/neverblock/, read("Gemfile"))
  end

  def test_it_says_what_can_not_be_written
    gemfile = read("Gemfile")
    write("vendor", "a file")
    assert_refusal(/\A\nFile exists @ dir_s_mkdir - #{@app}\/vendor\n  The Gemfile is as it was\. Make that path writable/)
    assert_equal gemfile, read("Gemfile")
  end

  def test_it_refuses_a_gemfile_that_it_can_not_change
    write("Gemfile", "gem 'neverblock'\nif true\n  gem 'neverblock'\nend\n")
    assert_refusal(/\A\nThe Gemfile has neverblock 2 times, in the lines 1, 3\.\n  Leave one of them$/)
    refute_path_exists "#{@app}/vendor"
  end

  def test_a_ruby_that_will_not_do_is_refused_with_its_version
    program = "#{@folder}/old/ruby"
    FileUtils.mkdir_p(File.dirname(program))
    File.write(program, "#!/bin/sh\necho 'no #{program}: version 3.1.2, where 3.3 or newer is needed'\n")
    File.chmod(0o755, program)
    path = [File.dirname(program), ENV["PATH"]].join(File::PATH_SEPARATOR)
    assert_refusal(/\A\nThe Ruby of "#{@app}" can't run NeverBlock: no #{program}: version 3\.1\.2.*NEVERBLOCK_RUBY=/m, environment: {"NEVERBLOCK_RUBY" => nil, "PATH" => path})
  end

  def test_without_a_ruby_it_says_so
    tools = "#{@folder}/tools"
    FileUtils.mkdir_p(tools)
    %w[bash dirname].each { |name| File.symlink(NeverBlockTest::Peer.find(name), "#{tools}/#{name}") }
    assert_refusal(/\A\nThere is no program ruby in PATH\.\n  Install Ruby 3\.3 or later, or name one: NEVERBLOCK_RUBY=/, environment: {"NEVERBLOCK_RUBY" => nil, "PATH" => tools})
  end

  # The Ruby of an app is the one that a version manager chooses by its folder.
  def test_the_ruby_is_the_one_of_the_app_s_folder
    shim = "#{@folder}/shims/ruby"
    FileUtils.mkdir_p(File.dirname(shim))
    File.write(shim, "#!/bin/sh\n[ \"$PWD\" = #{@app.inspect} ] && exec #{RbConfig.ruby} \"$@\"\necho \"no $0: the Ruby of $PWD\"\n")
    File.chmod(0o755, shim)
    assert_match(/is in #{Regexp.escape(@app)}/, vendor("NEVERBLOCK_RUBY" => nil, "PATH" => [File.dirname(shim), ENV["PATH"]].join(File::PATH_SEPARATOR)))
  end

  def test_what_is_next_in_an_app_of_rails
    refute_match(/rails|COPY|git add/, vendor)
    write("bin/rails", "")
    write("Dockerfile", "FROM ruby\nCOPY vendor/* ./vendor/\nCOPY Gemfile Gemfile.lock ./\nRUN bundle install\nCOPY . .\n")
    write(".gitignore", "/vendor/gems/**/*.md\n")
    NeverBlockTest::Outside.run("git", "init", "-q", chdir: @app)
    output = vendor
    assert_match(/^  bundle install .*^  bin\/rails generate neverblock:install .*^  bin\/rails server /m, output)
    assert_match(/^The Dockerfile needs a line before the one with `bundle install`:\n\n  COPY vendor\/gems \.\/vendor\/gems$/, output)
    assert_match(/git ignores \d+ of its files, such as #{PLACE}\/.*\.md:\n\n  git add -f #{PLACE}$/o, output)
    ["COPY vendor/gems ./vendor/gems\nRUN bundle install", "COPY . .\nRUN bundle install", "COPY Gemfile vendor ./\nRUN make"].each do |text|
      write("Dockerfile", "FROM ruby\n#{text}\n")
      refute_match(/Dockerfile needs/, vendor, text)
    end
  end

  private

  # The revision of the build that is there is another one.
  def again_and_a_later_version
    gemfile = read("Gemfile")
    vendor
    assert_equal gemfile, read("Gemfile")
    refute_match(/Compiling/, bundle_install)
    File.write("#{@checkout}/lib/neverblock/new.rb", "# of a later version\n")
    vendor
    assert_equal gemfile, read("Gemfile")
    assert_equal "# of a later version\n", read("#{PLACE}/lib/neverblock/new.rb")
    assert_match(/not compiled/, in_app("bundle", "exec", "ruby", "-e", PROGRAM).first)
  end

  def commit_checkout
    NeverBlockTest::Outside.run("git", "init", "-q", chdir: @checkout)
    NeverBlockTest::Outside.run("git", "add", "-A", chdir: @checkout)
    NeverBlockTest::Outside.run("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "All", chdir: @checkout)
    NeverBlockTest::Outside.run("git", "rev-parse", "--short=8", "HEAD", chdir: @checkout).strip
  end

  def vendor(environment = {}) = NeverBlockTest::Outside.run("#{@checkout}/bin/vendor", @app, chdir: @folder, environment: {**ruby, **environment})

  def assert_refusal(pattern, environment: {}, arguments: [@app])
    output, status = NeverBlockTest::Outside.capture("#{@checkout}/bin/vendor", *arguments, chdir: @folder, environment: {**ruby, **environment})
    assert_match pattern, output
    assert_equal 1, status.exitstatus
  end

  def ruby = {"NEVERBLOCK_RUBY" => RbConfig.ruby}

  def bundle_install(*options) = in_app!("bundle", "install", *options)

  def in_app(*words) = NeverBlockTest::Outside.capture(*words, chdir: @app, environment: {"BUNDLE_PATH" => @bundle})

  def in_app!(*words) = NeverBlockTest::Outside.run(*words, chdir: @app, environment: {"BUNDLE_PATH" => @bundle})

  def write(path, text)
    FileUtils.mkdir_p(File.dirname("#{@app}/#{path}"))
    File.write("#{@app}/#{path}", text)
  end

  def read(path) = File.read("#{@app}/#{path}")
end
