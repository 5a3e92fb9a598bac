# frozen_string_literal: true

# slow: it starts Rails again and again (60 s)

require "test_helper"
require "support/rails_app"
require "net/http"

# The commands of a Rails app: the server that `bin/rails server` starts, `neverblock serve`, the generator, system
# tests; and other commands, which must not change.
class RailsCommandsTest < Minitest::Test
  def setup
    reason = NeverBlockTest::RailsApp.missing and skip reason
  end

  def test_all
    NeverBlockTest::RailsApp.open do |app|
      @app = app
      app.run("bin/rails", "db:prepare")
      server_that_is_named
      server_with_workers
      server_at_the_file_s_address
      server_that_starts_anew
      neverblock_serve
      console_and_rake
      databases_as_sql
      generator
      generator_with_other_databases
      server_in_the_background
      settings_that_are_wrong
      system_tests
    end
  end

  private

  # Puma is in the Gemfile, and serves when it is named.
  def server_that_is_named
    @app.serve("bin/rails", "server", "-u", "neverblock", "-p", "0") { |served| assert served.port }
    [[["-u", "puma"], {}], [[], {"RACKUP_HANDLER" => "puma"}], [[], {"RACK_HANDLER" => "puma"}]].each do |words, environment|
      @app.serve("bin/rails", "server", *words, "-p", "0", environment:) do |served|
        served.until_true("Puma's line") { served.output.match?(/Puma version/) }
        port = served.until_true("its port") { served.output[/Listening on http:\S+:(\d+)/, 1] }
        assert_equal "fast", Net::HTTP.get(URI("http://127.0.0.1:#{port}/fast"))
      end
    end
  end

  # bin/rails then becomes `neverblock serve`, with its address and its PID file.
  def server_with_workers
    @app.serve("bin/rails", "server", "-p", "0", "-b", "127.0.0.1", environment: {"WEB_CONCURRENCY" => "2"}) do |served|
      assert_equal "fast", Net::HTTP.get(URI("http://127.0.0.1:#{served.port}/fast"))
      served.until_true("two workers") { served.workers.size == 2 }
      assert_equal served.pid, @app.read("tmp/pids/server.pid").to_i
      log_that_was_renamed(served)
      served.stop
    end
  end

  # As logrotate does. Each worker has the log open.
  def log_that_was_renamed(served)
    log = Dir["#{@app.folder}/log/*.log"].max_by { |path| File.mtime(path) }
    File.rename(log, "#{log}.1")
    served.signal(:HUP)
    served.until_true("the workers' new log") { served.workers.all? { |pid| Dir["/proc/#{pid}/fd/*"].any? { |fd| File.identical?(fd, log) } } }
    assert_equal "fast", Net::HTTP.get(URI("http://127.0.0.1:#{served.port}/fast"))
    served.until_true("the request's line") { File.read(log).include?('Started GET "/fast"') }
  end

  # The file's address applies if no other is given, to a single process and to a cluster.
  def server_at_the_file_s_address
    socket = "#{@app.folder}/tmp/app.sock"
    @app.write("config/neverblock.rb", "bind 'unix://#{socket}?mode=0600'\n")
    %w[1 2].each do |workers|
      @app.serve("bin/rails", "server", environment: {"WEB_CONCURRENCY" => workers}) do |served|
        assert_equal ["unix://#{socket}"], served.addresses
        assert_match(/fast\z/, served.get("/fast", Host: "localhost"))
        assert_equal 0o600, File.stat(socket).mode & 0o777
        refute_match(/localhost:3000/, served.output)
        served.stop
      end
    end
    File.delete(File.join(@app.folder, "config/neverblock.rb"))
  end

  # As `bin/rails restart` requests; clients that connect meanwhile wait.
  def server_that_starts_anew
    @app.serve do |served|
      assert_equal "fast", Net::HTTP.get(URI("http://127.0.0.1:#{served.port}/fast"))
      server_whose_file_has_a_mistake(served)
      @app.write("config/initializers/answer.rb", "ANSWER = 'anew'")
      @app.write("app/controllers/waits_controller.rb", @app.read("app/controllers/waits_controller.rb").sub('render(plain: "fast")', "render(plain: ANSWER)"))
      FileUtils.touch("#{@app.folder}/tmp/restart.txt", mtime: Time.now + 2)
      served.until_true("the new start") { served.errors.include?("starting anew") }
      assert_equal "anew", Net::HTTP.get(URI("http://127.0.0.1:#{served.port}/fast"))
      served.stop(:INT)
    end
    @app.write("config/initializers/answer.rb", "ANSWER = 'fast'")
  end

  # Its process file stays too: bin/rails removes it at a restart.
  def server_whose_file_has_a_mistake(served)
    @app.write("config/neverblock.rb", "max_in_fligth 5")
    served.signal(:USR1)
    served.until_true("the refusal") { served.errors.match?(/this one goes on: config\/neverblock\.rb:1: there is no directive max_in_fligth/) }
    File.delete(File.join(@app.folder, "config/neverblock.rb"))
    assert_equal [served.pid, "fast"], [@app.read("tmp/pids/server.pid").to_i, Net::HTTP.get(URI("http://127.0.0.1:#{served.port}/fast"))]
  end

  # NeverBlock is loaded before Rails, and the Railtie is loaded too.
  def neverblock_serve
    @app.serve("-rbundler/setup", "-e", "load Gem.bin_path('neverblock', 'neverblock')", "--", "serve", "-b", "tcp://127.0.0.1:0") do |served|
      assert_equal ["slept"] * 10, Array.new(10) { Thread.new { Net::HTTP.get(URI("http://127.0.0.1:#{served.port}/sleep?seconds=0.2")) } }.map(&:value)
      assert_match(/fiber/, Net::HTTP.get(URI("http://127.0.0.1:#{served.port}/live?name=a")))
    end
  end

  def console_and_rake
    output = @app.run("bin/rails", "runner", "p [Fiber.scheduler, NeverBlock.const_defined?(:Server, false), Note.count, Note.lease_connection.adapter_name]")
    assert_match(/\[nil, false, \d+, "PostgreSQL"\]/, output)
    assert_match(/bin\/rails db:migrate/, @app.run("bin/rails", "-T"))
    production = {"RAILS_ENV" => "production", "SECRET_KEY_BASE_DUMMY" => "1", "RAILS_LOG_TO_STDOUT" => "1"}
    assert_empty @app.run("bin/rails", "runner", "puts 1", environment: production).lines.grep(/neverblock/)
    assert_match(/create_table "notes"/, @app.read("db/schema.rb"))
  end

  # With pg_dump and psql, beside our connections in the same process.
  def databases_as_sql
    FileUtils.mv("#{@app.folder}/db/schema.rb", "#{@app.folder}/schema.rb")
    @app.write("config/initializers/structure.rb", "Rails.application.config.active_record.schema_format = :sql\n")
    output = rails("db:drop", "db:create", "db:migrate", "db:version")
    assert_match(/Created database 'shop_development'.*Current version: 20260101000000/m, output)
    structure = @app.read("db/structure.sql")
    assert_match(/CREATE TABLE public\.notes \(.*INSERT INTO "?schema_migrations"? \(version\) VALUES\s+\('20260101000000'\)/m, structure)
    restored_from(structure)
    rolled_back
    refute File.exist?("#{@app.folder}/db/schema.rb")
    %w[db/structure.sql config/initializers/structure.rb].each { |path| File.delete(File.join(@app.folder, path)) }
    FileUtils.mv("#{@app.folder}/schema.rb", "#{@app.folder}/db/schema.rb")
  end

  # Only that file has the remark. Later migrations are written to it.
  def restored_from(structure)
    @app.write("db/structure.sql", "#{structure}\nCOMMENT ON TABLE public.notes IS 'of structure.sql';\n")
    @app.write("db/migrate/20260102000000_create_tags.rb", "class CreateTags < ActiveRecord::Migration[7.2]\n  def change = create_table(:tags) { |table| table.string :name }\nend\n")
    rails("db:drop", "db:create", "db:schema:load", "db:migrate")
    assert_equal "of structure.sql", asked("select obj_description('notes'::regclass)")
    assert_equal "of structure.sql", asked("select obj_description('notes'::regclass)", "shop_test")
    assert_equal "20260101000000 20260102000000", asked("select string_agg(version, ' ' order by version) from schema_migrations")
    assert_equal "tags", asked("select to_regclass('tags')")
    assert_match(/CREATE TABLE public\.tags \(/, @app.read("db/structure.sql"))
  end

  def rolled_back
    assert_match(/Current version: 20260101000000/, rails("db:rollback", "db:version"))
    assert_equal ["", "notes"], [asked("select to_regclass('tags')"), asked("select to_regclass('notes')")]
    refute_match(/tags/, @app.read("db/structure.sql"))
    File.delete("#{@app.folder}/db/migrate/20260102000000_create_tags.rb")
  end

  # With PostgreSQL's programs of the server's version.
  def rails(*words) = @app.run("bin/rails", *words, environment: {"PATH" => "#{NeverBlockTest::PostgresServer::FOLDER}:#{ENV["PATH"]}"})

  def asked(sql, database = "shop_development") = @app.postgres.query(sql, database:)

  def generator
    @app.write("config/database.yml", @app.read("config/database.yml").sub(/<%= ENV.fetch.*%>/, "postgresql"))
    output = @app.run("bin/rails", "generate", "neverblock:install")
    assert_match(%r{create\s+config/neverblock.rb}, output)
    assert_match(/^  adapter: neverblock_postgresql$/, @app.read("config/database.yml"))
    assert_match(/the configuration is valid/, @app.run("-rbundler/setup", "-e", "load Gem.bin_path('neverblock', 'neverblock')", "--", "check-config"))
    assert_match(/identical|unchanged/, @app.run("bin/rails", "generate", "neverblock:install"))
  end

  # What `rails new` writes, since 8.1 and before: our adapters where there is one, a larger pool elsewhere, and both are said.
  def generator_with_other_databases
    small = '<%= ENV.fetch("RAILS_MAX_THREADS") { 5 } %>'
    limit = /^connections: 12 is the limit of each database in each process; pool: and max_connections: have no effect\./
    {"adapter: sqlite3\n  max_connections: #{small}" => ["adapter: sqlite3\n  max_connections: 20", nil],
     "adapter: sqlite3\n  pool: #{small}" => ["adapter: sqlite3\n  pool: 20", nil],
     "adapter: mysql2\n  pool: 5" => ["adapter: mysql2\n  pool: 5", /^pool: 5 is the limit of each process: .* fails after 5 s\. Write 20\./],
     "adapter: trilogy\n  max_connections: #{small}" => ["adapter: neverblock_mysql\n  connections: 12", limit],
     "adapter: postgis\n  max_connections: #{small}" => ["adapter: neverblock_postgis\n  connections: 12", limit],
     "adapter: postgresql\n  pool: 5" => ["adapter: neverblock_postgresql\n  pool: 5", limit]}.each do |before, (after, said)|
      output, configuration, databases = generated(before)
      assert_equal after, databases, before
      said ? assert_match(said, output) : refute_match(/ limit /, output)
      assert_match((said == limit) ? /^# Requests share the database's connections/ : /^# A request has a connection of its own .*\n# config\/database\.yml\.$/, configuration)
    end
  end

  # @return [Array(String, String, String)] the generator's output, the configuration, and the lines in place of these
  def generated(lines)
    @app.write("other/config/database.yml", "default: &default\n  #{lines}\n  timeout: 5000\n")
    output = @app.run("-rbundler/setup", "-e", <<~RUBY)
      require "rails/generators"
      require "generators/neverblock/install/install_generator"
      Neverblock::Generators::InstallGenerator.start([], destination_root: "other")
    RUBY
    [output, @app.read("other/config/neverblock.rb"), @app.read("other/config/database.yml")[/default\n  (.*)\n  timeout/m, 1]]
  ensure
    FileUtils.rm_rf("#{@app.folder}/other")
  end

  # It prints that it is one process before it detaches from its terminal.
  def server_in_the_background
    output = @app.run("bin/rails", "server", "-d", "-p", "0", environment: {"WEB_CONCURRENCY" => "2"})
    assert_match(/^neverblock: -d starts one process, but 2 workers are configured \(WEB_CONCURRENCY, /, output)
  ensure
    path = "#{@app.folder}/tmp/pids/server.pid"
    NeverBlockTest.wait_until("its process file") { File.size?(path) }
    Process.kill(:TERM, File.read(path).to_i)
    NeverBlockTest.wait_until("its end") { !File.exist?(path) }
  end

  def settings_that_are_wrong
    @app.write("config/initializers/wrong.rb", "Rails.application.config.active_support.isolation_level = :thread\nRails.application.config.neverblock.skip_patches = [:live]\n")
    refusal = /config.active_support.isolation_level is :thread.*Set it to :fiber/
    assert_match(refusal, @app.run("bin/rails", "server", "-p", "0", status: 1))
    @app.write("config/initializers/wrong.rb", "Rails.application.config.neverblock.skip_patches = [:life]\n")
    assert_match(/skip_patches: unknown patch life\. Known patches: .*live/, @app.run("bin/rails", "runner", "1", status: 1))
    File.delete(File.join(@app.folder, "config/initializers/wrong.rb"))
  end

  # The server that Capybara has started sees the rows of a test's transaction; afterwards they are gone.
  def system_tests
    output = @app.run("bin/rails", "test:system")
    assert_match(/2 runs, \d+ assertions, 0 failures, 0 errors, 0 skips/, output)
    assert_equal "0", @app.postgres.query("select count(*) from notes", database: "shop_test")
  end
end
