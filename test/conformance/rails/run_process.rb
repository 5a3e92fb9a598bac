# frozen_string_literal: true

require "json"

module Conformance
  module Rails
    # One process that runs files of Active Record's tests, with new databases.
    #
    #   process = RunProcess.new(tree, files, database:, surroundings: "neverblock").call
    #   process.results   # => [#<struct Conformance::Result ...>, ...]
    class RunProcess < TestProcess
      CHILD = File.join(__dir__, "child.rb")
      # @return [Hash{String=>String}] files that could not be loaded, with the error
      attr_reader :unloadable

      # @param database [Postgres, Mysql] open
      # @param surroundings [String] one of its adapters' keys
      def initialize(tree, files, database:, surroundings:, only: nil, except: [])
        super(tree, files.first, surroundings:, extensions: nil, only:, except:)
        @plan[:files] = files.map { |file| tree.join(file) }
        @database = database
        @adapter = database.adapters.fetch(surroundings)
        @unloadable = {}
      end

      # @return [self]
      def call
        @database.empty
        super
      end

      private

      def environment
        File.write(configuration_path, JSON.generate(connections: {@adapter => @database.connections}))
        gems = @tree.gems
        super.merge("RUBYLIB" => nil, "GEM_HOME" => gems, "GEM_PATH" => gems, "ARCONN" => @adapter, "ARCONFIG" => configuration_path,
          **@database.environment)
      end

      # JSON is YAML too.
      def configuration_path = File.join(@folder, "config.yml")

      def command = [RbConfig.ruby, *@tree.libraries.map { |folder| "-I#{folder}" }, CHILD]

      def take(event)
        super
        @unloadable[event.fetch("file")] = event.fetch("message") if event.fetch("event") == "unloadable"
      end
    end
  end
end
