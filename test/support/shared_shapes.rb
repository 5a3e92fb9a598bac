# frozen_string_literal: true

require_relative "database"

module NeverBlockTest
  # For tests of {Database} that disturb statements on shared connections, and see that all is in order afterwards.
  #
  #   share(database)
  #   NB.spawn { database.exec("select $1::text as n", [odd]) }
  #   works(database)
  module SharedShapes
    include Database

    private

    # Makes the shapes shared.
    # @return [void]
    def share(database)
      4.times { database.exec("select $1::text as n", ["0"]) }
      4.times { |n| database.exec("select #{n} as n") }
    end

    # Asserts that thirty statements get their own rows, and that nothing is held or queued afterwards.
    # @return [void]
    def works(database)
      rows = NB.timeout(10) { NB.concurrently(30.times.to_a, limit: 30) { |n| one(database.exec("select $1::text as n", ["after #{n}"])) } }
      assert_equal 30.times.map { |n| "after #{n}" }, rows
      pass_until("their connections") { database.stats.values_at(:held, :in_flight, :queued).all?(&:zero?) }
    end
  end
end
