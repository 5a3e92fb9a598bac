# frozen_string_literal: true

module NeverBlock
  # Names that are unique among things in use. It holds its things weakly; a thing's name is free when the thing is
  # gone. One more costs the same, however many there are.
  #
  #   names = UniqueNames.new { |pool| pool.closed? }
  #   names.take("sessions", pool)      # => "sessions"
  #   names.take("sessions", another)   # => "sessions (2)"
  #
  # A thing keeps its name as it was returned, since the name is held weakly too.
  # @api private
  class UniqueNames
    # The numbers that are looked at for a free one.
    FEW = 9
    private_constant :FEW

    # @yieldparam thing [Object]
    # @yieldreturn [Boolean] whether it needs its name no more
    def initialize(&gone)
      @gone = gone
      @things = ObjectSpace::WeakMap.new # by the name, which is interned
      @last = {}
    end

    # @param wanted [String]
    # @param thing [Object]
    # @return [String] its name, frozen
    def take(wanted, thing)
      name = -wanted
      free?(name) ? @last.delete(name) : name = numbered(name)
      @things[name] = thing
      name
    end

    private

    def free?(name)
      thing = @things[name]
      thing.nil? || @gone.call(thing)
    end

    # The lowest free number; beyond {FEW} it goes on after the last one, until a thing gets the plain name again.
    def numbered(wanted)
      low = (2..FEW).find { |number| free?(with(wanted, number)) }
      return with(wanted, low) if low
      number = @last.fetch(wanted, FEW)
      nil until free?(name = with(wanted, number += 1))
      @last[wanted] = number
      name
    end

    def with(wanted, number) = -"#{wanted} (#{number})"
  end
end
