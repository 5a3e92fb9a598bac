# frozen_string_literal: true

module NeverBlockTest
  # Callers of a flight that owns its computations.
  module Effects
    row "`Flight#call` with `owned: true`, while others wait too", :goes_on do
      flight, computing, answer, calls = NB::Flight.new(owned: true), gate, gate, []
      first = other { flight.call(:key) { (computing << true) && calls << :first && answer.pop } }
      computing.pop
      operation(:block) { flight.call(:key) { calls << :second } }
      check do
        assert_equal 1, flight.size
        answer << :value
        assert_equal :value, first.value
        assert_equal [[:first], 0], [calls, flight.size]
      end
    end

    row "`Flight#call` with `owned: true`, as the last caller", :withdrawn do
      flight, ended = NB::Flight.new(owned: true), gate
      operation(:block) do
        flight.call(:key) do
          sleep
        ensure
          ended << true
        end
      end
      check do
        assert ended.pop
        assert_equal 0, flight.size
        assert_equal :value, flight.call(:key) { :value }
      end
    end
  end
end
