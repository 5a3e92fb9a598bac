# frozen_string_literal: true

require "json"
require "tempfile"
require_relative "desk"
require_relative "links"
require_relative "servers"

module NeverBlockFuzz
  # Runs a program once, in a process of its own and on a new database.
  #
  #   SqlTrial.new(plan, :stock, limit: 60).start.results      # => {"12" => ["ok", [["1"]]], "counter" => "3", …}
  #
  # Keys are the numbers of steps and the names of facts.
  class SqlTrial
    # @param plan [Plan]
    # @param side [:stock, :ours]
    # @param limit [Numeric] seconds until it counts as hanging
    # @param plant [#call, nil] called in the process first
    def initialize(plan, side, limit:, plant: nil)
      @plan = plan
      @side = side
      @limit = limit
      @plant = plant
      @setup = plan.roots.first.args
    end

    # @return [self]
    def start
      @servers = Servers.shared
      @database = @servers.create(@side)
      @log = Tempfile.create("neverblock-fuzz")
      @input, output = IO.pipe
      @pid = fork { child(output) }
      output.close
      self
    end

    # @return [Hash{String=>Object}]
    def results
      text = read
      Process.kill(:KILL, @pid)
      Process.wait(@pid)
      found = text ? JSON.parse(text) : {"end" => ["hung or crashed", File.read(@log.path)[0, 3000]]}
      found.merge(@servers.facts(@database))
    ensure
      [@input, @log].each(&:close)
      File.unlink(@log.path)
      @servers.drop(@database)
    end

    private

    # @return [String, nil] nothing if it took too long or has failed
    def read
      text = +""
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + @limit
      until text.end_with?("\n")
        left = deadline - Process.clock_gettime(Process::CLOCK_MONOTONIC)
        return unless left > 0 && @input.wait_readable(left)
        text << @input.readpartial(65_536)
      end
      text
    rescue EOFError
      nil
    end

    def child(output)
      $stdin.reopen(File::NULL)
      [$stdout, $stderr].each { |io| io.reopen(@log) }
      @plant&.call if @side == :ours
      output.puts JSON.generate(run)
      output.flush
      sleep
    rescue Exception => error # standard:disable Lint/RescueException -- the parent finds it in the log
      warn error.full_message(highlight: false)
      exit!(1)
    end

    def run
      found = {}
      link = (@setup[:api] == :records) ? records : plain(@servers.server.url(@database))
      NeverBlock.run do |scope|
        @plan.roots.drop(1).each do |root|
          scope.spawn do
            desk = Desk.new(root.args[:number], link.call)
            root.body.each { |node| found[node.id.to_s] = desk.perform(node) }
          end
        end
      end
      found
    end

    # @return [Proc] makes the link of a fiber
    def plain(url)
      require "neverblock/postgres"
      return -> { Links::Plain.new(Links::Stock.new(url)) } if @side == :stock
      database = NeverBlock::Postgres.new(url, connections: @setup[:connections], multiplex: @setup[:multiplex], timeout: @limit)
      -> { Links::Plain.new(database) }
    end

    def records
      server = @servers.server
      ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
      ours = {adapter: "neverblock_postgresql", connections: @setup[:connections], multiplex: @setup[:multiplex], checkout_timeout: @limit}
      stock = {adapter: "postgresql", pool: Servers::FIBERS}
      ActiveRecord::Base.establish_connection(**((@side == :ours) ? ours : stock), host: server.folder, port: server.port, username: server.user, database: @database, prepared_statements: @setup[:prepared], min_messages: "error")
      -> { Links::Records.new }
    end
  end
end
