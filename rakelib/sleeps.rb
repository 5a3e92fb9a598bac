# frozen_string_literal: true

require "prism"

module Lint
  # Finds tests that sleep. A sleep makes a test slow on an idle machine and unreliable on a busy one, so tests wait for a
  # condition, or run on a virtual clock.
  #
  #   Lint::Sleeps.new.findings
  #   # => ["test/unit/task_test.rb:12: sleep 0.01", …]
  #   Lint::Sleeps.new.counts   # => {"test/unit" => 1}
  #
  # A sleep counts if it has an argument other than 0, in code or in a program (a heredoc named RUBY, or a string for
  # run_ruby). It does not count
  #
  # - in a file that uses the virtual clock, or includes a module that does, such as VirtualTime: it takes no time;
  # - with a comment on the same line or the line above that begins with "real:" and names the process, socket, database
  #   or kernel event that the sleep waits for;
  # - in a file that declares `# serial:` (test/support/suite/declarations.rb), which measures real time.
  class Sleeps
    ROOT = File.expand_path("..", __dir__)
    FOLDERS = %w[test/unit test/integration test/programs test/setup test/support].freeze
    SERIAL = /^# serial: /
    REASON = /# real: +\S/
    # In a program: a call with an argument other than 0.
    CALL = /(?<![\w.:@$"'-])(?:Kernel\.)?sleep[ (]+(?!0\b(?!\.)|if\b|unless\b|until\b|while\b|rescue\b)[\w(@-]/

    # The calls and programs of a file.
    class Reader < Prism::Visitor
      PROGRAMS = %i[run_ruby assert_ruby].freeze

      # @return [Array<Integer>] numbers of lines with a sleep, in code and in programs
      attr_reader :lines

      # @return [Array<String>] last names of included modules
      attr_reader :included

      # @return [Array<String>] last names of defined modules
      attr_reader :modules

      # @return [Boolean] whether it starts a virtual clock
      def virtual? = @virtual

      def initialize
        super
        @lines = []
        @included = []
        @modules = []
      end

      def visit_call_node(node)
        arguments = node.arguments&.arguments.to_a
        @lines << node.location.start_line if sleep?(node, arguments)
        @virtual ||= %i[run start during].include?(node.name) && node.receiver&.slice.to_s.match?(/Virtual(Clock|Time)\z/)
        @included.concat(arguments.map { |name| name.slice[/\w+\z/] }) if node.name == :include && node.receiver.nil?
        arguments.grep(Prism::StringNode) { |text| program(text.content, text.location.start_line) } if PROGRAMS.include?(node.name)
        super
      end

      def visit_module_node(node)
        @modules << node.constant_path.slice[/\w+\z/]
        super
      end

      def visit_string_node(node)
        program(node.content, node.content_loc.start_line) if node.opening.to_s.end_with?("RUBY", "RUBY'")
      end

      def visit_interpolated_string_node(node)
        return super unless node.opening.to_s.end_with?("RUBY", "RUBY'")
        node.parts.each { |part| part.is_a?(Prism::StringNode) ? program(part.content, part.location.start_line) : visit(part) }
      end

      private

      def sleep?(node, arguments)
        node.name == :sleep && arguments.any? && arguments.first.slice != "0" && [nil, "Kernel"].include?(node.receiver&.slice)
      end

      def program(text, line)
        text.each_line.with_index(line) { |code, number| @lines << number if code.match?(CALL) && !code.match?(/\A\s*#/) }
      end
    end
    private_constant :Reader

    # @param root [String] the project's folder
    def initialize(root = ROOT)
      @root = root
    end

    # @return [Array<String>] a line for each sleep: the file, the line and its text
    def findings = found.flat_map { |path, lines| lines.map { |number, text| "#{path}:#{number}: #{text}" } }

    # @return [Hash{String=>Integer}] sleeps of each folder of {FOLDERS}
    def counts = FOLDERS.to_h { |folder| [folder, found.sum { |path, lines| path.start_with?("#{folder}/") ? lines.size : 0 }] }

    private

    def found = @found ||= readers.reject { |path, reader| exempt?(path, reader) }.to_h { |path, reader| [path, without_reason(path, reader)] }

    def readers
      @readers ||= FOLDERS.flat_map { |folder| Dir.glob("#{folder}/**/*.rb", base: @root).sort }.to_h do |path|
        [path, Reader.new.tap { |reader| Prism.parse_file(File.join(@root, path)).value.accept(reader) }]
      end
    end

    def exempt?(path, reader)
      File.read(File.join(@root, path)).match?(SERIAL) || reader.virtual? || reader.included.intersect?(virtual)
    end

    # Modules of test/support that start a virtual clock, and those that include one of them.
    def virtual
      @virtual ||= begin
        support = readers.select { |path, _| path.start_with?("test/support/") }.values
        names = support.select(&:virtual?).flat_map(&:modules)
        loop do
          more = support.select { |reader| reader.included.intersect?(names) }.flat_map(&:modules) - names
          break names - ["NeverBlockTest"] if more.empty?
          names.concat(more)
        end
      end
    end

    def without_reason(path, reader)
      text = File.readlines(File.join(@root, path), chomp: true)
      reader.lines.uniq.sort.filter_map do |number|
        next if [text[number - 1], text[number - 2].strip].any? { |line| line.match?(REASON) }
        [number, text[number - 1].strip]
      end
    end
  end
end
