# frozen_string_literal: true

require "fileutils"
require "open3"
require "rbconfig"
require "tmpdir"

module NeverBlockTest
  # A machine on which bin/setup never ran: this Ruby, programs without the development bundle, copies of the project.
  #
  #   Outside.copy_project("#{folder}/neverblock", Outside::PACKAGED)
  #   Outside.run("gem", "build", "neverblock.gemspec", chdir: "#{folder}/neverblock")      # => its output
  module Outside
    # What the gem is made of.
    PACKAGED = %w[lib ext exe sig docs README.md CHANGELOG.md LICENSE SECURITY.md .yardopts neverblock.gemspec].freeze
    NOWHERE = "http://127.0.0.1:9" # port 9 discards
    private_constant :NOWHERE

    module_function

    # Without the compiled extension.
    # @return [String] the copy
    def copy_project(copy, names)
      names.each do |name|
        next unless File.exist?(File.join(ROOT, name))
        FileUtils.mkdir_p(File.dirname(File.join(copy, name)))
        FileUtils.cp_r(File.join(ROOT, name), File.join(copy, name))
      end
      FileUtils.rm_rf(Dir[File.join(copy, "lib", "neverblock", "[0-9]*")])
      copy
    end

    # @param words [Array<String>] a command; programs of this Ruby, such as gem and bundle, are those that it finds
    # @param environment [Hash{String=>String, nil}] beside that of a machine without a network
    # @return [Array(String, Process::Status)] standard output and standard error
    def capture(*words, chdir:, environment: {}) = Open3.capture2e({**clean, **environment}, *words, chdir:, stdin_data: "")

    # The same, for a command that must succeed.
    # @return [String]
    # @raise [Minitest::Assertion]
    def run(*words, **options)
      output, status = capture(*words, **options)
      status.success? ? output : raise(Minitest::Assertion, "#{words.join(" ")} ended with #{status.exitstatus}:\n#{output}")
    end

    # Installs gems that the development bundle has, from their packages.
    # @param home [String] the folder that GEM_HOME names
    # @return [void]
    def install_gems(home, *names)
      packages = names.map { |name| Gem.loaded_specs.fetch(name).cache_file }
      run("gem", "install", "--local", "--ignore-dependencies", "--no-document", "--install-dir", home, *packages, chdir: home)
    end

    # @return [String] the folder in a BUNDLE_PATH that has the gems of this Ruby
    def gems_of(bundle_path) = File.join(bundle_path, "ruby", RbConfig::CONFIG["ruby_version"])

    # The environment without Bundler's variables, with this Ruby first in PATH, and without a network.
    def clean
      @clean ||= (Bundler.unbundled_env.keys | ENV.keys).to_h { |name| [name, Bundler.unbundled_env[name]] }
        .merge("RUBYOPT" => nil, "RUBYLIB" => nil, "BUNDLE_GEMFILE" => nil, "BUNDLE_LOCKFILE" => nil,
          "PATH" => [RbConfig::CONFIG["bindir"], ENV["PATH"]].join(File::PATH_SEPARATOR),
          "http_proxy" => NOWHERE, "https_proxy" => NOWHERE, "BUNDLE_SILENCE_ROOT_WARNING" => "1")
    end
  end
end
