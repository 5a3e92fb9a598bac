# frozen_string_literal: true

require "fileutils"
require "json"
require "shellwords"
require_relative "outside"

module NeverBlockTest
  # Runs the steps of a Dockerfile without Docker. Each stage has a folder in place of a file system; the paths below `HOMES`
  # lead into it. The images' Ruby is the running one.
  #
  #   build = Dockerfile.new(File.read("Dockerfile"), context: "/home/me/shop", work: folder)
  #   build.before_run { |stage| … }      # before each command, such as to have gems that a registry would have
  #   image = build.call                  # => the last stage
  #   image.environment; image.folder     # of its CMD
  #   build.packages                      # => ["libpq5", …]: apt-get is not run, but the names are collected
  class Dockerfile
    # What is the image's own and not this machine's.
    HOMES = %w[/app /rails /usr/local/bundle].freeze
    # The environment of docker.io/library/ruby.
    RUBY = {"GEM_HOME" => "/usr/local/bundle", "BUNDLE_APP_CONFIG" => "/usr/local/bundle", "BUNDLE_SILENCE_ROOT_WARNING" => "1"}.freeze
    # Commands that change the system.
    SYSTEM = /\A(?:apt-get|useradd|groupadd|chown|ln)\b|\Arm -rf \/var\//

    # An image, or a part of it: its folder, environment, working directory, user and command.
    Stage = Struct.new(:root, :variables, :directory, :user, :command) do
      # @return [String] a path of the image, in this machine
      def path(text) = (HOMES.any? { |home| text == home || text.start_with?("#{home}/") }) ? File.join(root, text) : text

      # @return [String] a text with paths of the image
      def map(text) = text.gsub(%r{(?<![\w.-])(?:#{HOMES.join("|")})(?=[/\s"':;]|\z)}) { |home| File.join(root, home) }

      # @return [String] the working directory
      def folder = path(directory)

      # @return [Hash{String=>String, nil}] with a home of its own, since steps remove what is in it
      def environment = Outside.clean.merge(variables.transform_values { |value| map(value) }, "HOME" => root)
    end

    # @return [Array<String>] packages that apt-get would install
    attr_reader :packages

    # @return [Array<String>] commands that were not run, as they change the system
    attr_reader :omitted

    # @return [String] the output of the commands that ran
    attr_reader :output

    # @param text [String]
    # @param context [String] the folder that `docker build` is called for
    # @param work [String] an empty folder, for the stages
    def initialize(text, context:, work:)
      @lines = text.gsub(/^\s*#.*\n/, "").gsub("\\\n", " ").lines(chomp: true).reject { |line| line.strip.empty? }
      @context = context
      @work = work
      @stages = {}
      @packages = []
      @omitted = []
      @output = +""
    end

    # @yieldparam stage [Stage]
    # @return [void]
    def before_run(&block) = @before_run = block

    # @return [Stage] the last one
    # @raise [Minitest::Assertion] if a step fails
    def call
      @lines.each do |line|
        word, rest = line.strip.split(/\s+/, 2)
        send(:"step_#{word.downcase}", rest)
      end
      @stage
    end

    private

    def step_from(text)
      image, name = text.split(/\s+AS\s+/i)
      parent = @stages[image]
      @stage = Stage.new(File.join(@work, "stage-#{@stages.size}"), parent ? parent.variables.dup : RUBY.dup, parent&.directory || "/", parent&.user)
      FileUtils.mkdir_p(@stage.root)
      FileUtils.cp_r("#{parent.root}/.", @stage.root, preserve: true) if parent
      @stages[name || "last"] = @stage
    end

    def step_arg(_text) = nil

    def step_env(text) = Shellwords.split(text).each { |pair| pair.split("=", 2).then { |name, value| @stage.variables[name] = value } }

    def step_workdir(text) = FileUtils.mkdir_p(@stage.path(@stage.directory = text))

    def step_user(text) = @stage.user = text

    def step_expose(text) = nil

    def step_entrypoint(text) = nil

    def step_cmd(text) = @stage.command = JSON.parse(text)

    # As Docker does: of a folder the contents are copied, also of one that a pattern has found.
    def step_copy(text)
      words = Shellwords.split(text.gsub(/\$\{?(\w+)\}?/) { @stage.variables.fetch($1) })
      options, paths = words.partition { |word| word.start_with?("--") }
      from = options.filter_map { |option| option[/\A--from=(.*)/, 1] }.first
      *sources, target = paths
      target = @stage.path(File.expand_path(target, @stage.directory))
      found = sources.flat_map { |source| from ? [@stages.fetch(from).path(source)] : Dir.glob(source, base: @context).map { |path| File.join(@context, path) } }
      raise Minitest::Assertion, "COPY #{text}: nothing is found" if found.empty?
      found.each { |path| copy(path, target, into: found.size > 1 || paths.last.end_with?("/")) }
    end

    def copy(path, target, into:)
      if File.directory?(path)
        FileUtils.mkdir_p(target)
        FileUtils.cp_r("#{path}/.", target)
      else
        FileUtils.mkdir_p(into ? target : File.dirname(target))
        FileUtils.cp(path, target)
      end
    end

    def step_run(text)
      text.split(/\s*&&\s*/).each do |command|
        command.match?(SYSTEM) ? omit(command) : run(command)
      end
    end

    def omit(command)
      @omitted << command
      @packages.concat(Shellwords.split(command).drop(2).grep_v(/\A-/)) if command.start_with?("apt-get install")
    end

    def run(command)
      @before_run&.call(@stage)
      @output << Outside.run("sh", "-ec", @stage.map(command), chdir: @stage.folder, environment: @stage.environment)
    end
  end
end
