# frozen_string_literal: true

require_relative "library"

module NeverBlock
  class Postgres
    class Pipeline
      # Sequel's: a transaction, or `synchronize`, has its connection to itself.
      # @api private
      module Datasets
        extend Library

        def self.held? = Sequel::DATABASES.any? { |database| SequelPools::Pool === database.pool && database.pool.held? }
      end
    end
  end
end
