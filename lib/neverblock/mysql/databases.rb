# frozen_string_literal: true

module NeverBlock
  class MySQL
    # Has one {MySQL} for each configuration in the process: adapters of all threads and loops share its connections.
    #
    #   database = Databases.for({host: "db", connections: 12}) { Trilogy.new(host: "db") }
    #   database.connection   # => VirtualConnection
    # @api private
    module Databases
      @all = {}
      @lock = Thread::Mutex.new

      class << self
        # @param config [Hash{Symbol=>Object}] of database.yml
        # @param by [Object] equal for callers with equivalent blocks
        # @yieldreturn [Trilogy] a new one
        # @return [MySQL]
        def for(config, by: nil, &connect)
          @lock.synchronize do
            @all[[config, by]] ||= MySQL.new(connect, **Options.read(config))
          end
        end

        # @param config [Hash{Symbol=>Object}] as for {#for}
        # @param driver [Symbol] :trilogy or :mysql2
        # @return [String] the options in force, for the log
        # @raise [ConfigurationError] for an invalid value
        def describe(config, driver = :trilogy)
          options = Options.complete(Options.read(config))
          version = Gem.loaded_specs[driver.to_s]&.version
          "#{options[:connections]} connections of this process, by #{[driver, version].compact.join(" ")}"
        end

        # Figures of all databases: `NeverBlock.stats[:mysql]`.
        # @return [Array<Hash{Symbol=>Integer}>]
        def stats = @all.values.map(&:stats)
      end

      Stats.register(:mysql, self)
    end
  end
end
