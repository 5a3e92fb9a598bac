# frozen_string_literal: true

module NeverBlockTest
  class Differential
    # The list of all operations, by area. Each file below `operations/` has one area:
    #
    #   Operations.area("transactions") do
    #     add("commit") { |c| c.transaction { authors.create!(name: "a") } }
    #     each_of(%w[1 'x'], "literal") { |c, text| c.select_value("select #{text}") }
    #   end
    #
    # A block runs with a {Desk} as self, and gets the adapter. `differs:` names the parts of the outcome in which the
    # two adapters differ on purpose, each with a key of REASONS. They must differ.
    module Operations
      Operation = Struct.new(:area, :name, :block, :excused)

      # Reasons for differences, for `differs:`; docs/postgres.md tells users the same.
      REASONS = {
        types: "what adapters of one database ask while they connect is asked once, and known to the others",
        names: "a prepared statement has a name of its own on each real connection, which the server's messages say",
        parameters: "texts without values go by the extended protocol too, which says otherwise that a value is missing"
      }.freeze

      @all = []

      class << self
        # @return [Array<Operation>]
        attr_reader :all

        # @param name [String]
        def area(name, &)
          @area = name
          module_eval(&)
        end

        private

        # @param differs [Hash{Symbol=>Symbol}] a name in {REASONS}, by the member of Outcome
        # @param from [String] the first version of Active Record that has it
        def add(name, differs: {}, from: "7.2", &block)
          return if ActiveRecord.gem_version < Gem::Version.new(from)
          raise ArgumentError, "#{@area}, #{name}: there are two" if @all.any? { |operation| operation.area == @area && operation.name == name }
          @all << Operation.new(@area, name, block, differs.transform_values { |reason| REASONS.fetch(reason) })
        end

        # Adds an operation for each value of a list.
        def each_of(list, name, **options, &block)
          list.each { |item| add("#{name} #{item.inspect}", **options) { |connection| instance_exec(connection, item, &block) } }
        end
      end

      # In this order: each file builds on the rows that the files before it leave.
      %w[statements quoting types records queries transactions violations sessions definitions connections].each { |name| require_relative "operations/#{name}" }
    end
  end
end
