# frozen_string_literal: true

# The five workloads of 2008.
#
#   scene = Measured::Workloads.new
#   scene.call("heavy", 17)       # three counts, a create and an update, committed
#   scene.creates("heavy")        # => 1
module Measured
  class Workloads
    NAMES = {
      "very_light" => "one count",
      "light" => "a count and a create",
      "moderate" => "two counts and a create in a transaction, rolled back",
      "heavy" => "three counts, a create and an update, committed",
      "very_heavy" => "three counts, one on a field without index, a create and two updates, committed"
    }.freeze
    ENTRIES = 100

    # @param name [String]
    # @param number [Integer]
    def call(name, number) = public_send(name, number)

    # @return [Integer] how many entries are left by each
    def creates(name) = %w[light heavy very_heavy].include?(name) ? 1 : 0

    # Restores the table, so that earlier operations only warm up: counting takes longer with more entries.
    def begin_anew
      Entry.with_connection { |connection| connection.truncate(Entry.table_name) }
      Entry.insert_all!(Array.new(ENTRIES) { |number| {name: "Entry", kind: number % 10} })
    end

    # @return [Integer] of all entries
    def count = Entry.count

    def very_light(_number) = Entry.count

    def light(number)
      Entry.count
      create(number)
    end

    def moderate(number)
      Entry.transaction do
        2.times { Entry.count }
        create(number)
        raise ::ActiveRecord::Rollback
      end
    end

    def heavy(number)
      Entry.transaction do
        3.times { Entry.count }
        create(number).update!(name: "changed")
      end
    end

    def very_heavy(number)
      Entry.transaction do
        3.times { Entry.count }
        Entry.where(kind: 3).count
        entry = create(number)
        %w[changed twice].each { |name| entry.update!(name:) }
      end
    end

    private

    def create(number) = Entry.create!(name: "Entry #{number}", kind: number % 10)
  end
end
