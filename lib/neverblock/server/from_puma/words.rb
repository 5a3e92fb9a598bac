# frozen_string_literal: true

require_relative "call"
require_relative "own_variable"
require_relative "translation"

module NeverBlock
  class Server
    module FromPuma
      # The context in which a Puma configuration is evaluated: Puma's directives as methods that only record their
      # calls. {Translation} works on all of them afterwards.
      #
      #   words = Words.new
      #   words.__read(Script.new("config/puma.rb"))
      #   words.__calls.first.to_s    # => "threads 3, 3"
      # @api private
      class Words
        # Directives that Puma has removed.
        FORMER = {
          daemonize: "Puma left it out with version 5; systemd starts what is to run in the background",
          worker_directory: "Puma left it out with version 5; the word is directory",
          tcp_mode: "Puma left it out with version 5, and there is none here",
          nakayoshi_fork: "Puma left it out with version 6; the template compacts its memory before it forks"
        }.freeze

        # Remedies for undefined constants, and for files that can't be loaded, by their gem.
        REMEDIES = {
          Puma: "Puma is not loaded to read its configuration. Write: if defined?(Puma)",
          puma: "Puma is not loaded to read its configuration, and need not be installed. Write: if defined?(Puma)",
          DefaultRackup: "Puma left it out with version 6; without the line it is config.ru"
        }.freeze
        private_constant :FORMER, :REMEDIES

        # @return [Array<Call>]
        attr_reader :__calls

        def initialize
          @__calls = []
          @__scripts = []
          @options, @config = %w[@options @config].map { |name| OwnVariable.new(name) { @__scripts.last.place } }
        end

        # @param script [Script]
        # @return [void]
        # @raise [ConfigurationError]
        def __read(script)
          @__scripts << script
          script.guard(**REMEDIES) { EVALUATE.call(self, script) }
        ensure
          @__scripts.pop
        end

        # @param call [Call] one whose block has further directives
        # @return [void]
        def __run(call)
          @__scripts << (script = Script.new(call.place.sub(/:\d+\z/, "")))
          script.guard(**REMEDIES) { call.block&.call }
        ensure
          @__scripts.pop
        end

        Translation::ROWS.except(:get, :default_host, :inject).each do |name, row|
          define_method(name) do |*values, **keywords, &block|
            @__calls << Call.new(row:, name:, values:, keywords:, block:, place: @__scripts.last.place)
            nil
          end
        end

        # Directives that return a value.

        # @return [Object] the file's value for another word, such as get(:workers)
        def get(name, default = nil) = __last(name)&.first || default

        # @return [String]
        def default_host = __last(:set_default_host)&.first || Translation.everywhere

        # @yield further directives, called at once
        # @return [void]
        def inject(&block) = instance_eval(&block)

        private

        def __last(name) = @__calls.reverse_each.find { |call| call.row.names.include?(name.to_sym) }

        def method_missing(name, ...)
          if defined?(DidYouMean::SpellChecker)
            near = DidYouMean::SpellChecker.new(dictionary: Translation::ROWS.keys).correct(name).first
          end
          reason = FORMER[name] || "#{"Did you mean #{near}? " if near}docs/from-puma.md has them all; " \
            "if one of Puma's plugins brings it, write: … if respond_to?(:#{name})"
          raise ConfigurationError, "#{@__scripts.last.place}: Puma has no directive #{name}. #{reason}"
        end

        def respond_to_missing?(*) = false
      end
    end
  end
end

# Outside of all modules, so that constants in such a file are looked up as with Puma, not in NeverBlock.
NeverBlock::Server::FromPuma::EVALUATE = ->(words, script) { words.instance_eval(script.text, script.path) }
NeverBlock::Server::FromPuma.private_constant :EVALUATE
