# frozen_string_literal: true

require "bigdecimal"
require "bigdecimal/util"
require "date"
require "time"

module NeverBlock
  module Pages
    # The value of one column in a cursor: what JSON has for it, and back. Each value has one form.
    #
    #   CursorValue.dump(:datetime, time)                           # => "2026-11-26T20:37:47.000000Z"
    #   CursorValue.load(:datetime, "2026-11-26T20:37:47.000000Z")  # => a Time
    #   CursorValue.load(:datetime, "now")                          # => nil
    #
    # Only values that each database accepts for a column of that type are loaded: an error of the database would be a
    # response 500. There are no floating-point numbers, since databases compare them with another precision.
    # @api private
    module CursorValue
      TIME = /\A(?!0000)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z\z/
      DATE = /\A(?!0000)\d{4}-\d\d-\d\d\z/
      DECIMAL = /\A-?(?:0|[1-9]\d{0,59})\.\d{1,40}\z/
      UUID = /\A\h{8}-\h{4}-\h{4}-\h{4}-\h{12}\z/
      TYPES = {
        integer: :integer, big_integer: :integer, string: :string, text: :string, citext: :string, uuid: :uuid,
        datetime: :time, timestamp: :time, timestamptz: :time, date: :date, decimal: :decimal, boolean: :boolean
      }.freeze
      private_constant :TIME, :DATE, :DECIMAL, :UUID, :TYPES

      class << self
        # @param type [Symbol] of Active Record
        # @return [Boolean] whether a column of this type can be in a cursor
        def type?(type) = TYPES.key?(type)

        # @param type [Symbol] of Active Record
        # @param value [Object] as for the database
        # @return [Integer, String, Boolean, nil] nil: it has no form
        def dump(type, value)
          dumped = form(TYPES.fetch(type), value)
          dumped unless load(type, dumped).nil?
        end

        # @param type [Symbol] of Active Record
        # @param dumped [Object] anything
        # @return [Object, nil] nil: `dump` has not made it
        def load(type, dumped)
          case TYPES.fetch(type)
          when :integer then dumped if Integer === dumped && dumped.bit_length < 64
          when :boolean then dumped if dumped == true || dumped == false
          when :string then dumped if text?(dumped)
          when :uuid then dumped if matches?(UUID, dumped)
          when :decimal then dumped.to_d if matches?(DECIMAL, dumped)
          when :time then time(dumped) if matches?(TIME, dumped)
          when :date then date(dumped) if matches?(DATE, dumped)
          end
        end

        private

        def form(type, value)
          case type
          when :time then value.getutc.strftime("%Y-%m-%dT%H:%M:%S.%6NZ") if value.respond_to?(:getutc)
          when :date then value.strftime("%Y-%m-%d") if Date === value
          when :decimal then value.to_d.to_s("F") if Numeric === value && value.finite?
          else value
          end
        end

        # PostgreSQL has no text with a NUL.
        def text?(value) = String === value && value.valid_encoding? && !value.include?("\0")

        def matches?(form, value) = String === value && form.match?(value)

        def time(text)
          time = Time.strptime(text, "%Y-%m-%dT%H:%M:%S.%N%z").utc
          time if form(:time, time) == text
        rescue ArgumentError
          nil
        end

        def date(text)
          Date.strptime(text, "%Y-%m-%d")
        rescue ArgumentError
          nil
        end
      end
    end
  end
end
