# frozen_string_literal: true

module Conformance
  module Rails
    # One run of Active Record's own tests on one database, first with Rails' adapter, then with ours inside a loop.
    #
    #   session = Session.new.call.summary
    #   session.failed   # => 0
    class Session
      # Files per process; each process first loads Active Record and its schema.
      FILES = 30

      # @return [Hash{String=>Array<Part>}] by the folder of the files
      attr_reader :runs
      # @return [Tree]
      attr_reader :tree
      # @return [String]
      attr_reader :engine
      # @return [String] the server's name and version
      attr_reader :server
      # @return [Postgres, Mysql]
      attr_reader :database
      # @return [Float] seconds
      attr_reader :time

      # @return [Boolean] whether it covers all files
      def whole? = @whole

      # @param database [Postgres, Mysql]
      # @param only [Array<String>] parts of file names
      def initialize(engine:, database: Postgres.new, only: [], output: $stdout)
        @tree = Tree.find
        @database = database
        reason = database.missing and raise SourceTree::Missing, reason
        @engine = engine
        @whole = only.empty?
        @folders = @tree.folders(database.folders, only:)
        @output = output
        @runs = @folders.transform_values { [] }
        @lock = Mutex.new
      end

      # @return [self]
      def call
        started = now
        @exclusions = Exclusion.all
        @tree.gems
        @output.puts "Active Record's own tests from #{@tree.path} (#{@tree.version})", "#{RUBY_DESCRIPTION}, engine #{engine}", ""
        queue = @folders.flat_map { |folder, files| files.each_slice(FILES).map { |some| [folder, some] } }
        Array.new(Conformance::Session::JOBS) { Thread.new { work(queue) } }.each(&:value)
        @time = now - started
        self
      end

      # @return [Integer] number of verdicts of these kinds
      def count(*kinds) = runs.values.flatten.sum { |part| part.count(*kinds) }

      def passed = count("passed", "unsteady")

      def failed = count("failed")

      def skipped = count("skipped", "excluded", "stock")

      # Prints every verdict but "passed".
      # @return [self]
      def summary
        %w[unsteady stock failed].each do |kind|
          found = runs.values.flatten.flat_map(&:verdicts).select { |verdict| verdict.kind == kind }
          @output.puts "", "== #{kind} (#{found.size})" if found.any?
          found.each { |verdict| @output.puts verdict.test, verdict.message.to_s.lines.first((kind == "failed") ? 25 : 2).map { |line| "    #{line}" } }
        end
        @output.puts "", format("%.0f s", time)
        self
      end

      private

      # Each part has a server of its own, since the names of the databases are fixed.
      def work(queue)
        @database.open do |database|
          @server ||= database.title
          while (folder, files = @lock.synchronize { queue.shift })
            part = Part.new(@tree, folder, files, database:, exclusions: @exclusions).call
            @lock.synchronize { add(folder, part) }
          end
        end
      end

      def add(folder, part)
        runs[folder] << part
        @output.puts format("%<mark>-6s %<name>-30s %<passed>5d passed %<failed>3d failed %<skipped>3d not here %<time>6.1f s", mark: part.count("failed").zero? ? "ok" : "FAILED",
          name: folder.empty? ? "." : folder, passed: part.count("passed", "unsteady"), failed: part.count("failed"), skipped: part.count("skipped", "excluded", "stock"), time: part.time)
        part.verdicts.each { |verdict| @output.puts "       #{verdict.test}: #{verdict.message.to_s.lines.first}" if verdict.kind == "failed" }
        @output.flush
      end

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
