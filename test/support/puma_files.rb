# frozen_string_literal: true

require "neverblock/server/configuration"
require "tmpdir"

module NeverBlockTest
  # For tests of Puma configurations: each is read in a folder of its own, without Puma's variables.
  #
  #   include NeverBlockTest::PumaFiles
  #   reading("port 3000") { |configuration| configuration.addresses }
  module PumaFiles
    # What such files, and Puma, look for in the environment: here only what a test says.
    VARIABLES = %w[APP_ENV RACK_ENV RAILS_ENV PORT PIDFILE WEB_CONCURRENCY RAILS_MAX_THREADS RAILS_MIN_THREADS SOLID_QUEUE_IN_PUMA LISTEN_FDS].freeze

    def setup
      @before = VARIABLES.to_h { |name| [name, ENV.delete(name)] }
    end

    def teardown
      ENV.update(@before)
    end

    private

    # In a folder of its own, in which the file is config/puma.rb; Puma's other variables are not there.
    def reading(text, file: "config/puma.rb", **)
      Dir.mktmpdir("nb") do |folder|
        @folder = File.realpath(folder)
        Dir.chdir(@folder) do
          Dir.mkdir("config")
          File.write(file, text)
          configuration = NeverBlock::Server::Configuration.new.load(file, **)
          yield configuration if block_given?
          configuration
        end
      end
    end

    def moved(value)
      case value
      when String then value.sub(@folder, "DIR")
      when Array then value.map { |one| moved(one) }
      else value
      end
    end
  end
end
