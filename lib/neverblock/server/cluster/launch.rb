# frozen_string_literal: true

module NeverBlock
  class Server
    module Cluster
      # Starts processes with this process's own command, now or after the next deployment.
      #
      #   launch = Launch.new(["ruby", "/srv/shop/1/bin/neverblock", "serve"],
      #     directory: "/srv/shop/current", origin: "/srv/shop/1")
      #   launch.spawn({"NAME" => "value"}, [socket])   # => 4711
      #   launch.exec({}, [socket])                     # returns only if it fails
      #
      # The directory may be a link whose target changes with a deployment. Paths below the directory of this process's
      # own start follow it: those of the program, the Gemfile and the lock file.
      # @api private
      class Launch
        # Bundler's variables that hold a path; its setup sets the second one since version 4.
        BUNDLE = %w[BUNDLE_GEMFILE BUNDLE_LOCKFILE].freeze
        private_constant :BUNDLE

        # @return [String]
        attr_reader :directory

        # @param command [Array<String>]
        # @param environment [Hash{String=>String}] variables in addition to this process's own
        # @param directory [String]
        # @param origin [String] where this process was started, without links
        # @param env [Hash] this process's environment
        def initialize(command, environment: {}, directory: Dir.pwd, origin: File.realpath(Dir.pwd), env: ENV)
          @command = command
          @environment = environment
          @directory = directory
          @origin = origin
          @env = env
        end

        # @param variables [Hash{String=>String}]
        # @param ios [Array<IO>] inherited under the same descriptor numbers
        # @return [Integer] the process number
        # @raise [SystemCallError]
        def spawn(variables, ios) = Process.spawn(environment(variables), *command, chdir: @directory, **handed(ios))

        # @param variables [Hash{String=>String}]
        # @param ios [Array<IO>]
        # @raise [SystemCallError]
        def exec(variables, ios) = Process.exec(environment(variables), *command, chdir: @directory, **handed(ios))

        # @return [Array<String>]
        def command = @command.map { |word| moved(word) }

        # @return [Hash{String=>String}]
        def environment(variables = {})
          {**@environment, **@env.to_h.slice(*BUNDLE).transform_values { |path| moved(path) }, **variables}
        end

        private

        def moved(path)
          below = path.delete_prefix("#{@origin}/")
          (below == path) ? path : File.join(@directory, below)
        end

        def handed(ios) = ios.to_h { |io| [io, io] }
      end
    end
  end
end
