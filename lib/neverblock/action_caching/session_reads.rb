# frozen_string_literal: true

require_relative "watch"

module NeverBlock
  module ActionCaching
    # Tells the {Watch} of reads and writes of a session: prepended to the sessions of Rails and of Rack. It marks the
    # class; the methods are in a module of its own for each class, which has no others than the class itself.
    # @api private
    module SessionReads
      # Reads of one value. What is not there says nothing of the user.
      ONE = %i[[] dig fetch key? has_key? include? id id_was values_at inspect exists?].freeze
      ALL = %i[keys values to_hash to_h each empty?].freeze
      PUTS = %i[[]= store update merge! replace].freeze
      CALLS = {ONE => "session(self)", ALL => "session(self, all: true)", PUTS => "write_session(put: true)",
               %i[clear destroy] => "write_session", %i[delete] => "take_from_session"}.freeze
      private_constant :ONE, :ALL, :PUTS, :CALLS

      # @param target [Class]
      # @return [Module]
      def self.of(target)
        Module.new do
          CALLS.each do |names, call|
            names.each { |name| class_eval(SessionReads.source(name, call), __FILE__) if target.method_defined?(name) }
          end
        end
      end

      # @return [String] of a method that tells the watch
      def self.source(name, call)
        <<~RUBY
          def #{name}(...)
            watch = ::NeverBlock::ActionCaching::Watch.current
            watch ? watch.#{call} { super } : super
          end
        RUBY
      end
    end
  end
end
