# frozen_string_literal: true

module NeverBlockTest
  # Defines tests of a classifier of statements, one for each text. A test class extends itself with it, and has a
  # constant CLASSIFIER and a method `check_reason`, which gets a classification.
  #
  #   judged :read, "select 1", "SELECT 1;"
  #   unsure(/get_lock/, "select get_lock('a', 1)")
  module Classified
    # @param kind [Symbol] that the statements have
    # @param by [#call] a classifier
    def judged(kind, *statements, by: self::CLASSIFIER)
      statements.each do |sql|
        define_method(:"test_#{kind}_#{sql.inspect[1, 90].tr("^A-Za-z0-9", "_")}_#{sql.sum(32)}") do
          classification = by.call(sql)
          assert_equal kind, classification.kind, "#{sql}\n#{classification.inspect}"
          check_reason(classification)
          assert_predicate classification, :frozen?
        end
      end
    end

    # @param reason [Regexp] why the statements need a session
    # @param by [#call] a classifier
    def unsure(reason, *statements, by: self::CLASSIFIER)
      statements.each do |sql|
        define_method(:"test_unsure_#{sql.inspect[1, 90].tr("^A-Za-z0-9", "_")}_#{sql.sum(32)}") do
          classification = by.call(sql)
          assert_equal :session, classification.kind, "#{sql}\n#{classification.inspect}"
          assert_match reason, classification.reason, sql
        end
      end
    end
  end
end
