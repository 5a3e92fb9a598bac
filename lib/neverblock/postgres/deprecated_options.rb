# frozen_string_literal: true

require_relative "options"

module NeverBlock
  class Postgres
    # Options by their old names: each still works until 0.4, and its first use in a process is logged, with the new
    # name.
    #
    #   DeprecatedOptions.rename({share: :all, backlog: 500}) { |line| warn(line) }
    #   # => {multiplex: :all, max_waiting: 500}
    # @api private
    module DeprecatedOptions
      # The new name of each.
      NAMES = Options::ALL.values.select(&:was).to_h { |option| [option.was.first, option.name] }.freeze

      # Values of `multiplex:` from when it went beside `share:`.
      SWITCHES = [true, false, "true", "false"].freeze
      private_constant :SWITCHES

      @told = {}

      class << self
        # @param options [Hash{Symbol=>Object}]
        # @yieldparam line [String] for the log
        # @return [Hash{Symbol=>Object}] with the new names alone
        # @raise [ConfigurationError] if one has both names
        def rename(options, &tell)
          used = NAMES.select { |old, _| options.key?(old) }
          return options if used.empty?
          used.each { |old, new| announce(old, new, &tell) }
          used.each_with_object(options.except(*used.keys)) do |(old, new), renamed|
            renamed[new] = value(options, old, new)
          end
        end

        private

        # Threads that collide tell it twice.
        def announce(old, new)
          return if @told[old]
          @told[old] = true
          yield "PostgreSQL's option #{old}: is deprecated, and ends with 0.4: write " \
            "#{new}:#{" :reads, :all or false" if new == :multiplex} instead"
        end

        def value(options, old, new)
          return options[old] unless options.key?(new)
          unless new == :multiplex && SWITCHES.include?(options[new])
            raise ConfigurationError, "PostgreSQL's configuration: #{old}: #{options[old].inspect} and #{new}: " \
              "#{options[new].inspect} are one option by two names: leave #{old}: out"
          end
          (options[new].to_s == "false") ? false : options[old]
        end
      end
    end
  end
end
