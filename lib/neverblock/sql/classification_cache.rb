# frozen_string_literal: true

require_relative "../runtime/extension"

module NeverBlock
  # The texts of statements, for PostgreSQL and MySQL: what was found of each.
  module Sql
    # What a classifier has found of a text, by the text; and by the text's shape, so that statements which differ only
    # in their literals are read once, and long literals never. ext/neverblock/sql/shape.c makes the shape.
    #
    #   cache = ClassificationCache.new(:postgres, by_shape: ->(found) { found.read? }) { |sql| classify(sql) }
    #   cache.call("select 7")    # calls the block with "select 0"
    #   cache.call("select 8")    # => the same, if by_shape has returned true for it; else the block gets "select 8"
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
      LITERALS_MATTER = Object.new.freeze
      private_constant :Generations, :LITERALS_MATTER

      # @param dialect [Symbol] :postgres, :mysql, or :mysql_plain (with NO_BACKSLASH_ESCAPES)
      # @param by_shape [#call] gets a classification; returns whether it does not depend on the text's literals
      # @yieldparam sql [String] a text, or the shape of one
      # @yieldreturn [Object] its classification
      def initialize(dialect, by_shape:, &classify)
        @dialect = dialect
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
        shape = SqlShape.of(sql, @dialect, sql.bytesize > LONGEST)
        # A text without literals is found sooner by itself.
        return keep(@texts, sql, @classify.call(sql)) if shape.nil? || shape == sql
        found = @shapes[shape] || keep(@shapes, shape, judge(shape))
        LITERALS_MATTER.equal?(found) ? keep(@texts, sql, @classify.call(sql)) : found
      end

      def judge(shape) = @classify.call(shape).then { |found| @by_shape.call(found) ? found : LITERALS_MATTER }

      def keep(entries, key, found) = (key.bytesize > LONGEST) ? found : entries[key] = found
    end
  end
end
