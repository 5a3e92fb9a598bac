# frozen_string_literal: true

require "fileutils"
require "open3"
require_relative "gemfile"
require_relative "refused"

module Vendor
  # An app that takes NeverBlock into its vendor/gems:
  #
  #   App.new("/home/me/shop").take(Package.new("/home/me/neverblock"))
  class App
    PLACE = "vendor/gems/neverblock"

    # @param folder [String]
    def initialize(folder)
      @folder = folder
    end

    # Copies the package, writes the Gemfile's line, and prints what is to be done next.
    # @param package [Package]
    # @return [void]
    # @raise [Refused] before anything has been changed
    def take(package)
      refuse_the_checkout(package)
      package.revision
      before = read("Gemfile")
      after = Gemfile.new(before).with("neverblock", PLACE)
      FileUtils.mkdir_p(File.join(@folder, File.dirname(PLACE)))
      package.copy_to(File.join(@folder, PLACE))
      File.write(File.join(@folder, "Gemfile"), after) unless after == before
      puts "NeverBlock #{package.version} (#{package.revision}) is in #{@folder}/#{PLACE}, and its line is in the Gemfile."
      puts "", "Next:", "", *steps, *notes
    end

    private

    def refuse_the_checkout(package)
      return unless @folder == package.root || @folder.start_with?("#{package.root}/")
      raise Refused, "#{@folder} is in NeverBlock's own checkout.\nName the folder of your app: bin/vendor ../shop"
    end

    def steps
      commands = {"bundle install" => "compiles the extension with the app's own Ruby"}
      if File.exist?(File.join(@folder, "bin/rails"))
        commands["bin/rails generate neverblock:install"] = "config/neverblock.rb, and the database's adapter"
        commands["bin/rails server"] = "NeverBlock is the server now"
      else
        commands["bundle exec neverblock serve"] = "serves config.ru"
      end
      width = commands.keys.map(&:size).max
      ["  cd #{@folder}", *commands.map { |command, effect| "  #{command.ljust(width)}   # #{effect}" }]
    end

    def notes
      ["", "Add #{PLACE} to the app's version control: deployments build from there.", *ignored, *dockerfile]
    end

    def ignored
      paths = Dir.glob("#{PLACE}/**/*", base: @folder)
      output, _, status = Open3.capture3("git", "-C", @folder, "check-ignore", "--stdin", stdin_data: paths.join("\n"))
      return [] unless status.success? # 1: none is ignored, 128: no repository
      names = output.lines(chomp: true)
      ["", "The app's git ignores #{names.size} of its files, such as #{names.first}:", "", "  git add -f #{PLACE}"]
    rescue Errno::ENOENT # no git
      []
    end

    # An image whose gems are installed before the whole app is copied needs the folder by then.
    def dockerfile
      before, install = read("Dockerfile").partition(/^RUN .*bundle install/)
      return [] if install.empty? || before.match?(%r{^COPY (?:\S+ )*(?:\./)?(?:\.|vendor/gems/?|vendor/?) })
      ["", "The Dockerfile needs a line before the one with `bundle install`:", "", "  COPY vendor/gems ./vendor/gems"]
    end

    def read(name)
      path = File.join(@folder, name)
      File.exist?(path) ? File.read(path, encoding: "UTF-8") : ""
    end
  end
end
