# frozen_string_literal: true

module NeverBlockTest
  # For tests of Active Record: fibers in transactions, and others that begin one, use a model for the first time.
  module ColdModel
    # @param items [Class] a model whose columns were not read yet
    # @param holders [Integer] as many as have a real connection at the same time
    # @param start [#call] runs a block in a fiber or thread, and returns what has its value
    # @yieldreturn [Boolean] whether the other transaction waits for a real connection
    # @return [Array<String>] the names of the records that were created
    def use_cold_model(items, holders:, start: NB.method(:spawn))
      go = Thread::Queue.new
      inside = Thread::Queue.new
      first = Array.new(holders) do |n|
        start.call do
          items.transaction do
            items.lease_connection.execute("insert into items (name) values ('before #{n}')")
            inside << n
            go.pop
            items.create!(name: "holder #{n}")
          end
        end
      end
      holders.times { inside.pop }
      other = start.call { items.transaction { items.create!(name: "other") } }
      NeverBlockTest.wait_until("the other's wait") { yield }
      holders.times { go << true }
      [*first, other].each(&:value)
      items.order(:id).pluck(:name).grep_v(/before/)
    end
  end
end
