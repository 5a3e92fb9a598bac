# frozen_string_literal: true

module NeverBlock
  class Postgres
    # The prepared statements of one connection.
    #
    #   name = names.next
    #   pg.send_prepare(name, sql)
    #   names.add(key, name, at: now)
    #   names.find(key, since: prepared_at)   # => "nb1", or nil: prepare it
    #
    # PostgreSQL fixes the types of parameters when it parses a statement. If a column's type changes afterwards, no
    # error tells: the parameter is read as the old type, and the rows are wrong. So a name is used only if it is newer
    # than the user's `prepare`, and newer than the last change of a definition that this process has made.
    # @api private
    class Names
      # Prepared statements per connection; the least recently used is evicted first.
      MAX_PREPARED = 1_000

      Parsed = Struct.new(:name, :at)
      private_constant :Parsed

      def initialize
        @parsed = {}.compare_by_identity
        @given_up = []
        @serial = 0
        @outdated_at = 0.0
        @distrusted_at = nil
      end

      # @return [String] a name that was not used yet
      def next = "nb#{@serial += 1}"

      # @param key [Object] of the statement; compared by identity
      # @param name [String]
      # @param at [Float] when its Parse was sent, on the monotonic clock
      # @return [void]
      def add(key, name, at:)
        @given_up << @parsed.shift.last.name if @parsed.size >= MAX_PREPARED
        @parsed[key] = Parsed.new(name, at)
      end

      # @param key [Object]
      # @param since [Float] it must be newer than this, on the monotonic clock
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

      # Forgets a name: the statement is prepared again the next time.
      # @param key [Object]
      # @param known [Boolean] whether the server has the name, so that it must be deallocated
      # @return [void]
      def give_up(key, known: true)
        parsed = @parsed.delete(key)
        @given_up << parsed.name if parsed && known
      end

      # @return [Array<String>] names to deallocate; each is returned once
      def take_given_up
        return Statement::NONE if @given_up.empty?
        given_up, @given_up = @given_up, []
        given_up
      end

      # @return [Integer] number of names to deallocate
      def given_up = @given_up.size

      # A definition has changed: names that are older are not used any more.
      # @param at [Float] when, on the monotonic clock
      # @return [void]
      def outdate(at) = @outdated_at = at

      # A doubtful statement was sent. It may have changed a setting by which those prepared later mean something else.
      # @param at [Float] when it was sent
      # @return [void]
      def distrust(at) = @distrusted_at ||= at

      # The session was reset: forgets the names that were prepared since {#distrust}.
      # @return [void]
      def trust
        @parsed.select { |_, parsed| parsed.at > @distrusted_at }.each_key { |key| give_up(key) } if @distrusted_at
        @distrusted_at = nil
      end

      # The server has deallocated all.
      # @return [void]
      def clear
        @parsed.clear
        @given_up.clear
      end

      # @return [Boolean] whether it has none
      def empty? = @parsed.empty?

      private

      # Keeps the order of use. Another thread may give the name up meanwhile.
      def move_back(key)
        parsed = @parsed.delete(key)
        @parsed[key] = parsed if parsed
      end
    end
  end
end
