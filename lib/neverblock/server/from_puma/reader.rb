# frozen_string_literal: true

require_relative "words"

module NeverBlock
  class Server
    module FromPuma
      # Reads a Puma configuration, and the files that it loads.
      #
      #   Reader.new("config/puma.rb").read(configuration)   # => a Translation
      # @api private
      class Reader
        # @param path [String]
        # @param env [Hash] the environment
        def initialize(path, env: ENV)
          @path = path
          @env = env
          @seen = []
          @words = Words.new
        end

        # @param configuration [Configuration] is filled
        # @return [Translation]
        # @raise [ConfigurationError]
        def read(configuration)
          read_file(@path)
          said(cluster? ? :cluster : :single).each { |call| @words.__run(call) }
          Translation.new(configuration, @words.__calls, env: @env).call
        end

        private

        # Reads each file once, before those that it loads.
        def read_file(path)
          return if @seen.include?(path)
          @seen << path
          before = said(:load).size
          @words.__read(Script.new(path))
          said(:load).drop(before).each { |call| load_file(call, call.first.to_s) }
        end

        def load_file(call, path)
          unless File.file?(path)
            raise ConfigurationError, "#{call.place}: #{call}: there is no such file in #{Dir.pwd}"
          end
          read_file(path)
        end

        def said(name) = @words.__calls.select { |call| call.row.name == name }

        def cluster?
          call = said(:workers).last
          count = call ? call.first : @env["WEB_CONCURRENCY"]
          count.to_s == "auto" || count.to_i > (call ? 0 : 1)
        end
      end
    end
  end
end
