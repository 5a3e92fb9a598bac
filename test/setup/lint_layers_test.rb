# frozen_string_literal: true

require "test_helper"
require "tmpdir"
require_relative "../../rakelib/layers/layers"

# `rake lint:layers` reports names, requires and includes of a higher layer.
class LintLayersTest < Minitest::Test
  def setup
    @root = Dir.mktmpdir("neverblock")
    @table = YAML.load_file(Lint::Layers::TABLE)
    @table.each_value { |part| part["exceptions"] = [] }
  end

  def teardown = FileUtils.remove_entry(@root)

  def test_headers_of_a_layer_above
    write "ext/neverblock/scheduler/scheduler.h", "#include \"../engine/engine.h\"\n"
    write "ext/neverblock/http/app/app.h", "#include \"../../scheduler/scheduler.h\"\n"
    write "ext/neverblock/engine/backends/epoll.c", "#include \"../engine.h\"\n"
    write "ext/neverblock/engine/engine.h", "/*\n * #include \"../scheduler/scheduler.h\"\n */\n  #  include \"../scheduler/scheduler.h\"\n"
    write "ext/neverblock/http/transport/send.c", "#include \"app.h\"\n#include \"../../scheduler/scheduler.h\"\n"
    assert_equal ["ext/neverblock/engine/engine.h:4: engine may not know scheduler: #  include \"../scheduler/scheduler.h\"",
      "ext/neverblock/http/transport/send.c:1: http transport may not know http app: #include \"app.h\"",
      "ext/neverblock/http/transport/send.c:2: http transport may not know scheduler: #include \"../../scheduler/scheduler.h\""], findings
  end

  def test_the_protocol_knows_neither_ruby_nor_the_engine
    write "ext/neverblock/engine/engine.h", "#include <ruby.h>\n"
    write "ext/neverblock/http/transport/transport.h", "#include <ruby/io.h>\n#include \"../protocol/parser.h\"\n"
    write "ext/neverblock/http/protocol/parser.h", "#include <stdint.h>\n#include <ruby.h>\n#include \"ruby/io.h\"\n#include \"../../engine/engine.h\"\n"
    assert_equal ["ext/neverblock/http/protocol/parser.h:2: http protocol may not know ruby: #include <ruby.h>",
      "ext/neverblock/http/protocol/parser.h:3: http protocol may not know ruby: #include \"ruby/io.h\"",
      "ext/neverblock/http/protocol/parser.h:4: http protocol may not know engine: #include \"../../engine/engine.h\""], findings
  end

  def test_postgres_and_http_are_beside_one_another
    write "ext/neverblock/http/app/app.h", ""
    write "ext/neverblock/postgres/libpq.c", "#include \"../http/app/app.h\"\n"
    write "ext/neverblock/neverblock.c", "#include \"http/app/app.h\"\n"
    assert_equal ["ext/neverblock/postgres/libpq.c:1: postgres may not know http app: #include \"../http/app/app.h\""], findings
  end

  def test_constants_of_a_layer_above
    write "lib/neverblock/task.rb", "module NeverBlock\n  class Task\n    def server = Server::Health\n  end\nend\n"
    write "lib/neverblock/server.rb", "module NeverBlock\n  class Server\n    def start = Task.new\n  end\nend\n"
    write "lib/neverblock/server/health.rb", "module NeverBlock\n  class Server\n    class Health\n      LIMIT = Postgres\n    end\n  end\nend\n"
    write "lib/neverblock/postgres.rb", "module NeverBlock\n  class Postgres\n    Pool = Data.define(:size)\n    def core = ::NeverBlock::Server::Core\n  end\nend\n"
    assert_equal ["lib/neverblock/postgres.rb:4: postgres may not know server: NeverBlock::Server::Core",
      "lib/neverblock/server/health.rb:4: server may not know postgres: NeverBlock::Postgres",
      "lib/neverblock/task.rb:3: scheduler may not know server: NeverBlock::Server::Health"], findings
  end

  def test_the_scheduler_is_beneath_the_functions
    write "lib/neverblock/scheduler/loops.rb", "module NeverBlock\n  module Loops\n    def self.all = Promise.new\n  end\nend\n"
    write "lib/neverblock/promise.rb", "module NeverBlock\n  class Promise\n    LOOPS = Loops\n  end\nend\n"
    assert_equal ["lib/neverblock/scheduler/loops.rb:3: scheduler may not know api: NeverBlock::Promise"], findings
  end

  def test_a_class_of_a_layer_above_that_is_opened_again
    write "lib/neverblock/server.rb", "module NeverBlock\n  class Server\n    def start = nil\n  end\nend\n"
    write "lib/neverblock/task.rb", "module NeverBlock\n  class Server\n    def more = nil\n  end\nend\n"
    write "lib/neverblock/railtie.rb", "module NeverBlock\n  class Railtie\n    def config = nil\n  end\nend\n"
    write "lib/neverblock/cli.rb", "class NeverBlock::CLI < NeverBlock::Railtie\n  def call = nil\nend\n"
    assert_equal ["lib/neverblock/cli.rb:1: cli may not know railtie: NeverBlock::Railtie",
      "lib/neverblock/task.rb:2: scheduler may not know server: NeverBlock::Server"], findings
  end

  def test_a_namespace_is_no_reference_and_the_nearest_constant_counts
    write "lib/neverblock/server.rb", "module NeverBlock\n  class Server\n    def start = Cluster::Slot\n  end\nend\n"
    write "lib/neverblock/server/cluster/slot.rb", "module NeverBlock\n  class Server\n    module Cluster\n      class Slot\n        def to_s = Server.name\n      end\n    end\n  end\nend\n"
    write "lib/neverblock/patches/fork.rb", "module NeverBlock\n  module Patches\n    class Server\n      def start = Server.new\n    end\n  end\nend\n"
    assert_equal ["lib/neverblock/server.rb:3: server may not know cluster: NeverBlock::Server::Cluster::Slot"], findings
  end

  def test_constants_of_other_libraries
    write "lib/neverblock/task.rb", "module NeverBlock\n  class Task\n    def pg = PG::Connection\n    def rails? = defined?(::Rails::Server)\n  end\nend\n"
    write "lib/neverblock/railtie.rb", "module NeverBlock\n  class Railtie < Rails::Railtie\n    def base = ActiveRecord::Base\n  end\nend\n"
    assert_equal ["lib/neverblock/task.rb:3: scheduler may not know postgres: PG::Connection",
      "lib/neverblock/task.rb:4: scheduler may not know railtie: Rails::Server"], findings
  end

  def test_required_files_of_a_layer_above
    write "lib/neverblock/postgres/pool.rb", "require_relative \"../server\"\nrequire \"neverblock/task\"\n"
    write "lib/neverblock/server.rb", "autoload :Files, \"neverblock/cli/files\"\nrequire \"rails/railtie\"\n"
    write "lib/neverblock/cli/files.rb", "require \"neverblock/server\"\n"
    write "lib/neverblock/task.rb", "def later\n  require \"pg\"\nend\n"
    assert_equal ["lib/neverblock/postgres/pool.rb:1: postgres may not know server: require_relative \"../server\"",
      "lib/neverblock/server.rb:1: server may not know cli: require \"neverblock/cli/files\"",
      "lib/neverblock/server.rb:2: server may not know railtie: require \"rails/railtie\"",
      "lib/neverblock/task.rb:2: scheduler may not know postgres: require \"pg\""], findings
  end

  def test_exceptions_and_those_that_are_no_longer_needed
    write "lib/neverblock/server.rb", "require \"rails/railtie\"\n"
    @table["ruby"]["exceptions"] = [{"file" => "neverblock/server.rb", "knows" => "railtie", "because" => "a debt"},
      {"file" => "neverblock/task.rb", "knows" => "server", "because" => "paid"}]
    assert_equal ["lib/neverblock/task.rb: no longer needs its exception (server); take it out of the table"], findings
  end

  def test_a_file_without_a_layer
    write "lib/other.rb", "puts 1\n"
    write "ext/neverblock/cache/store.c", "int one;\n"
    assert_equal ["ext/neverblock/cache/store.c: belongs to no layer of the table; give it one",
      "lib/other.rb: belongs to no layer of the table; give it one"], findings
  end

  def test_the_table_has_no_circles_and_gives_reasons
    YAML.load_file(Lint::Layers::TABLE).each_value do |part|
      part["exceptions"].each { |row| refute_empty row.fetch("because") }
      layers = part["layers"]
      below = layers.to_h { |name, row| [name, row["knows"].to_a] }
      below.each_value { |names| assert_empty names - layers.keys }
      below.keep_if { |_, names| names.any? { |name| below[name] } } until below.none? || below.values.none? { |names| names.none? { |name| below[name] } }
      assert_empty below
    end
  end

  private

  def write(path, text)
    path = File.join(@root, path)
    FileUtils.mkdir_p(File.dirname(path))
    File.write(path, text)
  end

  def findings = Lint::Layers.new(root: @root, table: @table).findings
end
