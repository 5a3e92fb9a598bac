# frozen_string_literal: true

module NeverBlock
  class Postgres
    class Router
      # Waiting requests in their order. Requests of one kind are interchangeable for the router, so it asks about the
      # first of each kind: a look costs as much as there are kinds, however many requests wait.
      #
      #   line = Line.new { |request| [request.lease?, request.fingerprint, request.session_defaults] }
      #   line.add(request)
      #   line.find { |first| place?(first) }    # => the first request of the kinds for which it is true
      #   line.delete(request)
      #
      # Requests that are added with `yields: true` let others pass: each later one comes after only one of them.
      # @api private
      class Line
        # A waiting request's kind, and its place in the order: an even turn yields, others have odd ones. Others may
        # have the same turn; the serial number decides.
        Place = Struct.new(:kind, :turn, :serial) do
          def before?(other) = turn < other.turn || (turn == other.turn && serial < other.serial)
        end
        private_constant :Place

        # @yieldparam request [Request]
        # @yieldreturn [Object] its kind
        def initialize(&kind)
          @kind = kind
          clear
        end

        # @param request [Request]
        # @param yields [Boolean]
        # @return [void]
        def add(request, yields: false)
          place = Place.new(@kind.call(request), yields ? yielding_turn : other_turn, @serial += 1)
          (yields ? @yielding : @others)[request] = place
          (@kinds[place.kind] ||= {}.compare_by_identity)[request] = place
          @size += 1
        end

        # @param request [Request]
        # @return [Request, nil] nil: it was not in the line
        def delete(request)
          return if @size == 0
          place = @others.delete(request) || @yielding.delete(request) or return
          @size -= 1
          alike = @kinds[place.kind]
          alike.delete(request)
          @kinds.delete(place.kind) if alike.empty?
          request
        end

        # @return [Boolean] whether the request is in it
        def include?(request) = @others.key?(request) || @yielding.key?(request)

        # @return [Request, nil]
        def first = (earlier(@others.first, @yielding.first)&.first unless @size == 0)

        # @yieldparam first [Request] the first of a kind
        # @return [Request, nil] the first request of the kinds for which the block is true
        def find
          heads = @kinds.each_value.filter_map { |alike| alike.first if yield alike.first.first }
          heads.reduce { |one, other| earlier(one, other) }&.first
        end

        # @yieldparam first [Request] the first of a kind
        # @return [Boolean] whether the block is true for one
        def any? = @kinds.each_value.any? { |alike| yield alike.first.first }

        # @yieldparam first [Request] the first of a kind
        # @return [Array<Request>] all requests of the kinds for which the block is true; they leave the line
        def take_all
          taken = @kinds.values.select { |alike| yield alike.first.first }.flat_map(&:keys)
          taken.each { |request| delete(request) }
        end

        # @return [Array<Request>] in no order
        def to_a = @others.keys + @yielding.keys

        # @return [Integer]
        attr_reader :size

        # @return [Boolean]
        def empty? = @size == 0

        # @return [void]
        def clear
          @others, @yielding = {}.compare_by_identity, {}.compare_by_identity
          @kinds = {}
          @size = @serial = @last_yielding = 0
          @last_other = 1
        end

        private

        # Behind all others.
        def yielding_turn = @last_yielding = [@last_yielding, @last_other].max / 2 * 2 + 2

        # Behind the first one that yields and is behind the last of the others.
        def other_turn
          _, first = @yielding.first
          return @last_other unless first
          following = [@last_other + 2, first.turn + 1].max
          @last_other = [following, @last_yielding + 1].min
        end

        # @return [Array(Request, Place), nil]
        def earlier(one, other)
          return one || other unless one && other
          one.last.before?(other.last) ? one : other
        end
      end
    end
  end
end
