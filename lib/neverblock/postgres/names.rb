# frozen_string_literal: true

module NeverBlock
  class Postgres
    # The names under which one connection has had statements parsed.
    #
    #   name = names.next
    #   pg.send_prepare(name, sql)
    #   names.add(key, name, at: now)
    #   names.find(key, since: prepared_at)   # => "nb1", or nil: it is to be parsed
    #
    # PostgreSQL fixes the parameters' types when it parses. A column's type may change afterwards, and nothing tells: the
    # parameter would be read as of the old type, and the rows be wrong. So a name serves only what was prepared before it was
    # parsed, and none that is older than the last change of tables that went through the process.
    # @api private
    class Names
      # Names that a connection keeps; the least recently used one is forgotten beyond.
      MAX_PREPARED = 1_000

      Parsed = Struct.new(:name, :at)
      private_constant :Parsed

      def initialize
        @parsed = {}.compare_by_identity
        @given_up = []
        @serial = 0
        @outdated_at = 0.0
        @doubted_at = nil
      end

      # @return [String] one that was never used
      def next = "nb#{@serial += 1}"

      # @param key [Object] what is prepared by it, by identity
      # @param name [String]
      # @param at [Float] when its Parse was sent, on the monotonic clock
      # @return [void]
      def add(key, name, at:)
        @given_up << @parsed.shift.last.name if @parsed.size >= MAX_PREPARED
        @parsed[key] = Parsed.new(name, at)
      end

      # @param key [Object]
      # @param since [Float] it must have been parsed after this time
      # @return [String, nil]
      def find(key, since:)
        parsed = @parsed[key] or return
        if parsed.at <= since || parsed.at <= @outdated_at
          give_up(key)
          return
        end
        move_back(key) if @parsed.size > MAX_PREPARED / 2
        parsed.name
      end

      # @param key [Object] what is to be parsed anew the next time
      # @param known [Boolean] whether the server knows the name
      # @return [void]
      def give_up(key, known: true)
        parsed = @parsed.delete(key)
        @given_up << parsed.name if parsed && known
      end

      # @return [Array<String>] names that the server may forget, each of them once
      def take_given_up
        return Statement::NONE if @given_up.empty?
        given_up, @given_up = @given_up, []
        given_up
      end

      # @return [Integer] how many the server may forget
      def given_up = @given_up.size

      # What was parsed before is of other tables.
      # @param at [Float]
      # @return [void]
      def outdate(at) = @outdated_at = at

      # What is parsed from now on may mean something else: by a setting that a statement may have left.
      # @param at [Float] when that was sent
      # @return [void]
      def doubt(at) = @doubted_at ||= at

      # Whatever it was, it is undone; what was parsed meanwhile is not to be used any more.
      # @return [void]
      def undoubted
        @parsed.select { |_, parsed| parsed.at > @doubted_at }.each_key { |key| give_up(key) } if @doubted_at
        @doubted_at = nil
      end

      # The server has forgotten all.
      # @return [void]
      def clear
        @parsed.clear
        @given_up.clear
      end

      # @return [Boolean] whether it has none
      def empty? = @parsed.empty?

      private

      # In the order of their use. Another thread may give the name up meanwhile.
      def move_back(key)
        parsed = @parsed.delete(key)
        @parsed[key] = parsed if parsed
      end
    end
  end
end
