# frozen_string_literal: true

# slow: it compiles the extension, and starts Rails (60 s)

require "test_helper"
require "shellwords"
require "support/doc_block"
require "support/outside"
require "support/rails_app"

# What the first page promises: its program runs when it is pasted, and its commands put NeverBlock into an app of Rails, with the
# bundle of the app alone. docs/rails.md takes it out again.
class ReadmeTest < Minitest::Test
  def setup
    @folder = File.realpath(Dir.mktmpdir("nb"))
  end

  def teardown
    FileUtils.rm_rf(@folder)
  end

  # With the documented command, in an empty folder, without a network.
  def test_its_program_runs_as_pasted
    readme = File.read(File.join(NeverBlockTest::ROOT, "README.md"))
    command = readme[/`(bin\/ruby \w+\.rb)` runs it/, 1].shellsplit
    File.write(File.join(@folder, command.last), NeverBlockTest::DocBlock.in("README.md").find(&:runnable?).code)
    output = NeverBlockTest::Outside.run(File.join(NeverBlockTest::ROOT, command.first), command.last, chdir: @folder, environment: {"NEVERBLOCK_RUBY" => RbConfig.ruby})
    assert_match(/\A1,000 waits of a second took \d+\.\d s, on one thread\n\z/, output)
    assert_operator output[/took (\S+) s/, 1].to_f, :<, 500, "half of the time of one after another"
  end

  def test_its_commands_put_it_into_an_app_of_rails
    reason = NeverBlockTest::RailsApp.missing and skip reason
    NeverBlockTest::RailsApp.open do |app|
      new_app(app)
      *commands, server = NeverBlockTest::DocBlock.in("README.md", "sh").first.code.lines(chomp: true)
      commands.each { |command| shell(command) }
      assert_match(/^gem "neverblock", path: "vendor\/gems\/neverblock"$/, File.read("#{@shop}/Gemfile"))
      assert_match(/bin\/rails server/, server)
      assert_equal ["gems", "200"], served
      without_it
    end
  end

  private

  # The gems of the tests' apps, in a bundle of its own; NeverBlock is not among them. With Puma, as in each new app.
  def new_app(app)
    @environment = app.environment.merge(NeverBlockTest::Outside.clean) { |_, own, _| own }
      .merge("BUNDLE_GEMFILE" => nil, "BUNDLE_PATH" => "#{@folder}/bundle", "NEVERBLOCK_RUBY" => RbConfig.ruby, "BOOTSNAP_CACHE_DIR" => nil)
    NeverBlockTest::Outside.copy_project("#{@folder}/neverblock", [*NeverBlockTest::Outside::PACKAGED, "bin"])
    FileUtils.mkdir_p("#{@folder}/bundle")
    shell("cp -al #{File.join(NeverBlockTest::ROOT, "vendor/bundle").shellescape}/. #{@folder}/bundle", chdir: @folder)
    @shop = "#{@folder}/shop"
    FileUtils.cp_r(app.folder, @shop)
    gems = File.read(File.join(NeverBlockTest::RailsApp::FOLDER, "common.gemfile")).sub(/^gem "neverblock".*\n/, "")
    File.write("#{@shop}/Gemfile", "#{gems}gem \"rails\", \"~> 8.1.0\"\n")
    databases("adapter: <%= ENV.fetch(\"SHOP_ADAPTER\", \"neverblock_postgresql\") %>" => "adapter: postgresql")
    ["bundle install", "bin/rails db:prepare"].each { |command| shell(command) }
  end

  def databases(changes)
    path = "#{@shop}/config/database.yml"
    text = File.read(path)
    changes.each { |before, after| assert_includes(text, before) && text.sub!(before, after) }
    File.write(path, text)
  end

  # No registry is asked.
  def shell(command, chdir: @shop)
    command = command.sub(/\s+# .*/, "").sub(/^bundle install/, "bundle install --local")
    NeverBlockTest::Outside.run("bash", "-ec", command, chdir:, environment: @environment)
  end

  # @return [Array(String, String)] where the served NeverBlock is from, and the status of Rails' own page for probes
  def served
    File.write("#{@shop}/config/initializers/place.rb", %($stderr.puts "from \#{Gem.loaded_specs["neverblock"].full_gem_path[%r{vendor/(\\w+)/}, 1]}"\n))
    NeverBlockTest::ServeProcess.open(->(_) { @shop }, command: ["bin/rails", "server", "-p", "0", "-b", "127.0.0.1"], environment: @environment, ruby: ["-W0"], library: []) do |served|
      status = served.get("/up", Host: "localhost")[/\AHTTP\/1\.1 (\d+)/, 1]
      return [served.errors[/^from (\w+)/, 1], status]
    end
  ensure
    File.delete("#{@shop}/config/initializers/place.rb")
  end

  def without_it
    File.write("#{@shop}/Gemfile", File.read("#{@shop}/Gemfile").sub(/^gem "neverblock".*\n/, ""))
    databases("adapter: neverblock_postgresql" => "adapter: postgresql")
    page = File.read(File.join(NeverBlockTest::ROOT, "docs/rails.md")).split(/^## Removing it$/).last
    page[/^```sh\n(.*?)```/m, 1].lines(chomp: true).each { |command| shell(command) }
    assert_equal "nil 0\n", shell(%(bin/rails runner 'puts "\#{defined?(NeverBlock).inspect} \#{Note.count}"')).lines.last
  end
end
