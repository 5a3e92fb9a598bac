# frozen_string_literal: true

require_relative "library"

module NeverBlock
  class Postgres
    class Pipeline
      # Sequel's part of pipelines: statements inside a transaction or `synchronize` belong to its connection.
      # @api private
      module Datasets
        extend Library

        def self.held?
          Sequel::DATABASES.any? { |database| SequelPools::Pool === database.pool && database.pool.held? }
        end
      end
    end
  end
end
