# frozen_string_literal: true

module NeverBlockTest
  class MySQLDifferential
    # The list of all operations, by area. Each file below `operations/` has one area:
    #
    #   Operations.area("transactions") do
    #     add("commit") { |c| c.transaction { authors.create!(name: "a") } }
    #     each_of(%w[1 'x'], "literal") { |c, text| c.select_value("select #{text}") }
    #   end
    #
    # A block is run at the {MySQLDifferential}, which has the models, and gets the adapter.
    module Operations
      @all = {}
      @only = {}

      class << self
        # @return [Hash{String=>Proc}]
        attr_reader :all

        # @param driver [String]
        # @return [Hash{String=>Proc}] those that it has
        def of(driver) = @all.select { |name, _block| [nil, driver].include?(@only[name]) }

        # @param name [String]
        def area(name, &)
          @area = name
          module_eval(&)
        end

        # @param name [String]
        # @param from [String] the first version of Active Record that has it
        # @param only [String, nil] the driver that has it
        def add(name, from: "7.2", only: nil, &block)
          return if ActiveRecord.gem_version < Gem::Version.new(from)
          name = "#{@area}, #{name}"
          raise ArgumentError, "#{name}: there are two" if @all.key?(name)
          @all[name] = block
          @only[name] = only
        end

        # Many of a kind.
        def each_of(items, name, &block)
          items.each { |item| add("#{name} #{item.inspect}") { |connection| instance_exec(connection, item, &block) } }
        end
      end

      Dir[File.join(__dir__, "operations", "*.rb")].sort.each { |file| require file }
    end
  end
end
