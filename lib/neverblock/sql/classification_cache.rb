# frozen_string_literal: true

require_relative "../runtime/extension"

module NeverBlock
  # The texts of statements, for PostgreSQL and MySQL: what was found of each.
  module Sql
    # What a classifier has found of a text, by the text; and by the text's shape, so that statements which differ only
    # in their literals are read once. ext/neverblock/sql/shape.c makes the shape.
    #
    #   cache = ClassificationCache.new(mysql: false, by_shape: ->(found) { found.read? }) { |sql| classify(sql) }
    #   cache.call("select 7")    # calls the block
    #   cache.call("select 8")    # => the same, if by_shape has returned true for it
    #
    # It has no lock: threads that collide classify twice.
    # @api private
    class ClassificationCache
      # Entries in each of the two generations.
      GENERATION_SIZE = 1_000
      # Bytes of the longest text or shape that is kept: longer ones hardly come twice.
      LONGEST = 10_240

      # Two generations of entries: those of the older one that are not asked for are forgotten.
      class Generations
        def initialize
          @young, @old = {}, {}
        end

        # @return [Object, nil]
        def [](key) = @young[key] || @old[key]&.then { |value| self[key] = value }

        # @return [Object] the value
        def []=(key, value)
          @old, @young = @young, {} if @young.size >= GENERATION_SIZE
          @young[key] = value
        end

        # @return [Integer]
        def size = @young.size + @old.size
      end
      private_constant :Generations

      # @param mysql [Boolean] whether it is MySQL's SQL; else PostgreSQL's
      # @param by_shape [#call] gets a classification; returns whether it does not depend on the text's literals
      # @yieldparam sql [String]
      # @yieldreturn [Object] its classification
      def initialize(mysql:, by_shape:, &classify)
        @mysql = mysql
        @by_shape = by_shape
        @classify = classify
        clear
      end

      # @param sql [String]
      # @return [Object] the classification
      def call(sql) = @texts[sql] || find(sql)

      # @return [Integer] number of entries
      def size = @texts.size + @shapes.size

      # Forgets all.
      # @return [void]
      def clear
        @texts = Generations.new
        @shapes = Generations.new
      end

      private

      def find(sql)
        return @classify.call(sql) unless String === sql
        shape = SqlShape.of(sql, @mysql)
        known = shape && @shapes[shape]
        return known if known
        found = @classify.call(sql)
        # A text without literals is found sooner by itself.
        entries, key = (shape && shape != sql && @by_shape.call(found)) ? [@shapes, shape] : [@texts, sql]
        (key.bytesize > LONGEST) ? found : entries[key] = found
      end
    end
  end
end
