# frozen_string_literal: true

# engines: every - each engine has its own way to end a wait
require "test_helper"
require "support/effects"
require "support/effects/names_program"

# The table "What happens to an operation when its waiter leaves" of docs/cancellation-and-timeouts.md, cell by cell:
# each operation is left in each way while it is under way.
class EffectsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::SlowNames

  Effects = NeverBlockTest::Effects

  def test_the_document_has_exactly_the_tested_rows
    documented = Effects.documented.map(&:first)
    assert_equal documented.uniq, documented
    assert_empty documented - Effects.rows.keys, "rows of the document that no test has"
    assert_empty Effects.rows.keys - documented, "rows of the test that the document has not"
  end

  def test_the_document_states_the_fate_that_the_test_proves
    Effects.documented.each do |name, what, learns, *rest|
      assert_empty rest, name
      refute_empty learns.to_s, "#{name}: how the caller learns of it"
      fate = Effects::FATES.fetch(Effects.rows.fetch(name).fate)
      assert what.start_with?(fate), "#{name}: the test says #{fate}, the document: #{what}"
    end
  end

  def test_no_cell_is_missing
    cells = self.class.public_instance_methods.grep(/\Atest_cell: /).size
    assert_equal Effects.rows.values.count(&:here?) * Effects::WAYS.size, cells
  end

  Effects.rows.each_value.select(&:here?).each do |row|
    Effects::WAYS.each do |way|
      slow "it starts Ruby, with a resolver of its own" if row.names
      define_method("test_cell: #{row.name.delete("`")}: #{way}") do
        self.assertions += row.names ? names_program.call(row, way) : Effects::Cell.walk(row, way)
      end
    end
  end

  # One program for all of the cells that need a resolver of our own.
  def names_program
    @@names_program ||= with_names({"slow.test" => {"127.0.0.1" => 0}}, gate: true) do |resolver| # standard:disable Style/ClassVars
      Effects::NamesProgram.new(assert_ruby(Effects::NamesProgram::CODE, gems: true, **resolver))
    end
  end
end
