# frozen_string_literal: true

module NeverBlock
  module Sql
    # Finds the ends of strings and quoted names. It looks only at quotes and what is before them: a regular expression
    # would look at each character.
    #
    #   Quotes.end_of("'it''s' = name", 0)                   # => 7
    #   Quotes.end_of("'it\\'s' = name", 0, escapes: true)   # => 7
    #   Quotes.end_of("'it", 0)                              # => nil
    # @api private
    module Quotes
      BACKSLASH = "\\".ord
      private_constant :BACKSLASH

      # @param sql [String] valid in its encoding
      # @param at [Integer] index of the byte of the quote that begins it
      # @param escapes [Boolean] whether a backslash escapes a quote
      # @return [Integer, nil] index of the byte after the quote that ends it
      def self.end_of(sql, at, escapes: false)
        quote = sql.byteslice(at, 1)
        while (at = sql.byteindex(quote, at + 1))
          next if escapes && escaped?(sql, at)
          return at + 1 unless sql.getbyte(at + 1) == quote.ord
          at += 1
        end
      end

      def self.escaped?(sql, at)
        before = at - 1
        before -= 1 while sql.getbyte(before) == BACKSLASH
        (at - before).even?
      end
      private_class_method :escaped?
    end
  end
end
