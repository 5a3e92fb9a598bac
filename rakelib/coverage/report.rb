# frozen_string_literal: true

require "coverage"
require "json"
require "open3"

# The figures of `rake coverage`, from the records of all processes (recorder.rb) and from gcov: which lines and
# branches of lib/ and ext/ the tests ran.
#
#   coverage = CoverageReport.new(records: "tmp/coverage/ruby", objects: "tmp/3.4-coverage")
#   puts coverage.table        # | folder | lines | branches |
#   puts coverage.uncovered    # lib/neverblock/task.rb:12-14
class CoverageReport
  ROOT = File.expand_path("../..", __dir__)

  # The record of a file: how often each line ran, and each branch, by its line and a text that names it.
  Source = Struct.new(:path, :lines, :branches) do
    def self.empty(path) = new(path, {}, {})

    def add_line(number, times) = lines[number] = lines.fetch(number, 0) + times

    def add_branch(line, name, times) = branches[[line, name]] = branches.fetch([line, name], 0) + times

    # A row of the table: lib/neverblock/postgres with its folders, ext/neverblock/http/app.
    def folder
      top, *parts = File.dirname(path).split("/")
      [top, *(parts.first((top == "lib") ? 2 : 3) if parts.first == "neverblock")].join("/")
    end

    # @return [Array<String>] "path:12-14" for lines, "path:20 else" for a branch of a line that ran
    def uncovered
      missed = lines.reject { |_, times| times > 0 }.keys.sort
      runs = missed.slice_when { |one, another| lines.keys.any? { |line| line > one && line < another } }
      unused = branches.select { |(line, _), times| times.zero? && lines.fetch(line, 1) > 0 }.keys.sort
      runs.map { |run| "#{path}:#{[run.first, run.last].uniq.join("-")}" } +
        unused.map { |line, name| "#{path}:#{line} #{name}" }
    end
  end

  # @param records [String] the folder of the processes' records
  # @param objects [String] the folder that the extension was compiled in
  # @param root [String] the folder of lib/ and ext/
  def initialize(records:, objects:, root: ROOT)
    @root = root
    @sources = Hash.new { |sources, path| sources[path] = Source.empty(path) }
    Dir[File.join(root, "lib", "**", "*.rb")].each { |path| add_unloaded(path) }
    Dir[File.join(records, "*.record")].each do |path|
      add_record(Marshal.load(File.binread(path))) # standard:disable Security/MarshalLoad
    end
    Dir[File.join(objects, "*.gcda")].each_slice(20) { |paths| add_gcov(objects, paths) }
  end

  # @return [String] a table in Markdown, with a row for each folder and one for each language
  def table
    rows = %w[lib ext].flat_map do |top|
      all = sources.select { |source| source.path.start_with?("#{top}/") }
      all.group_by(&:folder).sort.map { |folder, members| row("`#{folder}/`", members) } << row("**#{top}/**", all)
    end
    ["| folder | lines | branches |", "| --- | ---: | ---: |", *rows].join("\n")
  end

  # @return [Array<String>]
  def uncovered = sources.flat_map(&:uncovered)

  private

  def sources = @sources.values.sort_by(&:path)

  def row(title, members)
    lines, branches = %i[lines branches].map { |kind| share(members.flat_map { |source| source[kind].values }) }
    "| #{title} | #{lines} | #{branches} |"
  end

  def share(times) = times.empty? ? "–" : format("%.1f %%", 100.0 * times.count(&:positive?) / times.size)

  # A file that no process loads counts with its lines; its branches are unknown.
  def add_unloaded(path)
    source = @sources[path.delete_prefix("#{@root}/")]
    Coverage.line_stub(path).each.with_index(1) { |times, number| source.add_line(number, 0) if times }
  end

  def add_record(record)
    record.each do |path, found|
      source = @sources[path]
      found[:lines].each.with_index(1) { |times, number| source.add_line(number, times) if times }
      found[:branches].each do |(kind, _, line), cases|
        cases.each do |(name, _, *place), times|
          source.add_branch(line, "#{kind} #{name} #{place.first(2).join(":")}", times)
        end
      end
    end
  end

  # For a branch in C, gcov knows only its number.
  def add_gcov(objects, paths)
    command = ["gcov", "--json-format", "--branch-probabilities", "--stdout", *paths]
    output, status = Open3.capture2(*command, chdir: objects)
    raise "gcov failed in #{objects}" unless status.success?
    output.each_line do |line|
      JSON.parse(line).fetch("files").each do |file|
        path = File.expand_path(file.fetch("file"), objects).delete_prefix("#{@root}/")
        add_c(@sources[path], file.fetch("lines")) if path.start_with?("ext/")
      end
    end
  end

  def add_c(source, lines)
    lines.each do |line|
      number = line.fetch("line_number")
      source.add_line(number, line.fetch("count"))
      line.fetch("branches").each.with_index(1) do |branch, index|
        source.add_branch(number, "branch #{index}", branch.fetch("count"))
      end
    end
  end
end
