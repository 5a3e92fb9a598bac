# frozen_string_literal: true

require_relative "pause"

module NeverBlock
  class Server
    module Cluster
      # Loads the app anew, one time after another: when an operator asks for it, and when the template has ended. The old
      # workers go on until the new template is there.
      #
      #   scope.spawn { reloads.run }
      #   reloads.ask(:reload)      # new workers from a new template
      #   reloads.ask(:restart)     # … and a new supervisor
      # @api private
      class Reloads
        # @param supervisor [#load_anew, #say]
        # @param templates [Templates]
        def initialize(supervisor, templates)
          @supervisor = supervisor
          @templates = templates
          @pause = Pause.new
          @asked = Thread::Queue.new
        end

        # Asked for once more while the app is loading, it is done once more: what is to be loaded may have changed after it
        # was read.
        # @param kind [Symbol] :reload or :restart; :boot for the first time; :replace, where it is loaded already
        # @return [void]
        def ask(kind)
          @supervisor.say("the app is loaded once more, when this has been done") if @busy
          @asked << kind
        end

        # The template has ended. One that is loading now may follow it; if it does not, {#run} sees that.
        # @return [void]
        def heal
          @asked << :reload unless @busy
        end

        # @return [Boolean] whether one goes on
        def busy? = @busy == true

        # @return [void]
        def run
          loop do
            last = @asked.pop(timeout: rest)
            last = @asked.pop until @asked.empty?
            @busy = true
            @supervisor.load_anew(last || :reload)
            @busy = false
          end
        end

        private

        # An app that could be loaded is loaded at once where its template has ended; one that could not be, after a pause,
        # which an operator cuts short.
        # @return [Numeric, nil] seconds until it is tried without being asked for
        def rest
          return @pause.next unless @templates.present?
          @pause.over
          nil
        end
      end
    end
  end
end
