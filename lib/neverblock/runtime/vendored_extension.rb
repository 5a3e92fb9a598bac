# frozen_string_literal: true

require "rbconfig"

module NeverBlock
  # The extension of the copy that `bin/vendor` puts into an app. Bundler compiles no gem that has a path, so this does:
  # in `bundle install`, once for each Ruby, and to where Bundler keeps the extensions of all gems. The app's folder
  # stays as it is, and neither git nor a container's COPY carries one machine's build to another.
  #
  #   NeverBlock::VendoredExtension.new(specification, "51b7fe7e").announce     # in the gemspec
  # @api private
  class VendoredExtension
    NAME = "neverblock_ext.#{RbConfig::CONFIG["DLEXT"]}"
    private_constant :NAME

    # @param specification [Gem::Specification] of the copy, while Bundler reads it
    # @param revision [String] of the copy: each one has a build of its own
    def initialize(specification, revision)
      @source = File.expand_path("../../../ext/neverblock", __dir__)
      @name = specification.name
      @folder = File.join(Bundler.bundle_path, "extensions", Gem::Platform.local.to_s, Gem.extension_api_version,
        "#{specification.full_name}-#{revision}")
      specification.extension_dir = @folder
    end

    # Bundler calls RubyGems' hooks for each gem, those with a path too.
    # @return [void]
    def announce
      Gem.pre_install { |installer| build if installer.spec.name == @name }
    end

    # @return [void]
    # @raise [Bundler::InstallHookError] with the output of the command that failed
    def build
      return if built?
      require "fileutils"
      require "tmpdir"
      # mkmf compiles in the folder of the sources, or in one next to it, and never in a path with a blank.
      Dir.mktmpdir("neverblock") do |work|
        FileUtils.cp_r("#{@source}/.", work)
        Bundler.ui.confirm("Compiling the extension of #{File.basename(@folder)}")
        run(work, RbConfig.ruby, "extconf.rb")
        run(work, "make", "-j#{jobs}")
        install(File.join(work, NAME))
      end
    end

    private

    # As RubyGems itself marks it, which takes the extension for missing otherwise.
    def complete = File.join(@folder, "gem.build_complete")

    def built? = File.exist?(complete)

    # Renamed, never written into: another process may be installing, or have the file mapped.
    def install(made)
      target = File.join(@folder, "neverblock", NAME)
      FileUtils.mkdir_p(File.dirname(target))
      FileUtils.cp(made, "#{target}.#{Process.pid}")
      File.rename("#{target}.#{Process.pid}", target)
      FileUtils.touch(complete)
    end

    def run(work, *command)
      require "open3"
      output, status = Open3.capture2e(*command, chdir: work)
      return if status.success?
      fail_with "#{command.join(" ")} ended with #{status.exitstatus}.\n\n#{output.lines.last(20).join}\n" \
        "It needs a C compiler, make and Ruby's headers"
    rescue Errno::ENOENT
      fail_with "there is no program #{command.first}"
    end

    # This error of Bundler's is printed without a backtrace.
    def fail_with(reason)
      raise Bundler::InstallHookError, "NeverBlock's extension does not compile: #{reason}. " \
        "Debian: apt-get install build-essential pkg-config"
    end

    def jobs
      require "etc"
      Etc.nprocessors
    end
  end
end
